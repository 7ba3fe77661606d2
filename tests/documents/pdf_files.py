"""PDF files for tests."""

import zlib
from collections.abc import Sequence


def pdf(*pages: Sequence[str], packed: bool = False) -> bytes:
    """A PDF file with lines of text on its pages."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        shown = "".join(f"({line}) Tj 0 -14 Td\n" for line in lines)
        stream = f"BT /F1 12 Tf 72 720 Td\n{shown}ET".encode("latin-1")
        stream, filters = (zlib.compress(stream), b" /Filter /FlateDecode") if packed else (stream, b"")
        refers = f"/Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * number} 0 R"
        objects.append(f"<< /Type /Page /MediaBox [0 0 612 792] {refers} >>".encode())
        objects.append(b"<< /Length %d%s >>\nstream\n%s\nendstream" % (len(stream), filters, stream))
    output, places = bytearray(b"%PDF-1.4\n"), list[int]()
    for number, item in enumerate(objects, 1):
        places.append(len(output))
        output += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    start = len(output)
    output += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    output += b"".join(b"%010d 00000 n \n" % place for place in places)
    return bytes(output + b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
