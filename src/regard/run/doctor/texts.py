"""Checks of the text: is it what the recipe says, is the test unseen, what do filters and vocabulary make of it?"""

from regard.data.filters import FilterReport
from regard.data.settings import PairDataSettings
from regard.run.doctor.check import Check, Status
from regard.run.doctor.survey import PARTS, Survey
from regard.text.tokenizer import Tokenizer

# Short sentences ("Thank you.") rightly occur in every part; beyond this share a score measures memory.
LEAKED_TOO_MUCH = 0.05
DROPPED_A_LOT, DROPPED_TOO_MUCH = 0.2, 0.5
SPELLED_A_LOT, SPELLED_TOO_MUCH = 0.05, 0.3
PIECES_PER_WORD = 4.0
TOO_LONG_HELD_OUT = 0.01
SHOWN = 60  # characters a side
LOOKED_AT = 2_000  # sentences a side; more do not change a share that matters


def check_files(data: PairDataSettings, found: Survey) -> Check:
    """Every file could be read to its end (a defect was raised before) and there is something in each part."""
    name = "files"
    counts = ", ".join(f"{part} {found.parts[part].pairs:,}" for part in ("train", "valid", "test"))
    if not found.whole:
        return Check(name, "pass", f"pairs read from the beginning of each corpus: {counts}; --quick reads no further")
    if not data.test:
        remedy = "name a test corpus, data.test, that no decision was made on"
        return Check(name, "warn", f"aligned UTF-8 text; pairs: {counts}: there is nothing to test on", remedy)
    return Check(name, "pass", f"aligned UTF-8 text; pairs: {counts}")


def show_pairs(found: Survey) -> Check:
    """What is read as source and as target: swapped files and wrong columns are seen at a glance, and only so."""
    firsts = (f"{name}: {_short(found.parts[name].sample[0])}" for name in PARTS if found.parts[name].sample)
    return Check("pairs", "pass", "source -> target, a pair of each\n" + "\n".join(firsts))


def _short(pair: tuple[str, str]) -> str:
    return " -> ".join(text if len(text) <= SHOWN else f"{text[:SHOWN]}…" for text in pair)


def check_overlap(found: Survey) -> Check:
    """No pair of valid or test was learnt, or what they measure is memory."""
    name = "unseen test"
    shares = {part: len(found.leaked[part]) / len(known) for part, known in found.held_out.items() if known}
    worst = max(shares.values(), default=0.0)
    where = "" if found.whole else " (among the pairs read; --quick reads no further)"
    if not worst:
        return Check(name, "pass", f"no pair of {' or '.join(shares)} occurs in train{where}")
    finding = "; ".join(
        f"{len(found.leaked[part]):,} of {len(found.held_out[part]):,} pairs of {part} ({share:.1%}) occur in train, "
        f"the first at {found.first_leak[part]}"
        for part, share in shares.items()
        if share
    )
    remedy = "take these pairs out of the training files: the score would measure memory, not translation"
    return Check(name, "fail" if worst > LEAKED_TOO_MUCH else "warn", finding + where, remedy)


def check_filters(data: PairDataSettings, report: FilterReport, found: Survey) -> Check:
    """Filters take out the odd pair; when they take out half, either they or the files are wrong."""
    read = max(1, report.read)
    reasons = {"empty": report.empty, "too long": report.too_long, "ratio": report.ratio, "identical": report.identical}
    shares = {reason: count / read for reason, count in reasons.items()}
    # Copies seldom meet in a sample, so theirs is counted over everything that was read.
    shares["duplicate"] = report.duplicate / read
    if data.drop_duplicates and found.parts["train"].sampled:
        shares["duplicate"] = found.repeated / found.parts["train"].pairs
    dropped = min(1.0, sum(shares.values()))
    listed = ", ".join(f"{reason} {share:.1%}" for reason, share in shares.items() if share)
    sampled = f" (in a sample of {report.read:,})" if found.parts["train"].sampled else ""
    finding = f"{dropped:.1%} of the training pairs are left out{': ' + listed if listed else ''}{sampled}"
    remedies = {
        "empty": "see why so many lines are empty",
        "too long": f"raise data.max_length (now {data.max_length}), split long lines, or enlarge text.vocab_size",
        "ratio": f"see whether line n translates line n; else raise data.max_ratio (now {data.max_ratio:g})",
        "identical": "see whether both sides are one language; else write data.drop_identical=false",
        "duplicate": "see why the files repeat themselves; copies that are meant stay with data.drop_duplicates=false",
    }
    status: Status = "fail" if dropped > DROPPED_TOO_MUCH else "warn" if dropped > DROPPED_A_LOT else "pass"
    return Check("filters", status, finding, "" if status == "pass" else remedies[max(shares, key=shares.__getitem__)])


def check_vocabulary(
    vocabularies: tuple[Tokenizer, Tokenizer], data: PairDataSettings, found: Survey, vocab_size: int
) -> Check:
    """Words are written with few pieces, and few of them byte by byte; measured on text held out where there is any."""
    name = "vocabulary"
    findings, worst_spelled, most_pieces = [], 0.0, 0.0
    text = (found.parts["valid"].sample or found.parts["train"].sample)[:LOOKED_AT]
    for side, vocabulary in enumerate(vocabularies):
        spelled, words, pieces = _count(vocabulary, [pair[side] for pair in text])
        worst_spelled, most_pieces = max(worst_spelled, spelled / words), max(most_pieces, pieces / words)
        language = (data.src_lang or "source", data.tgt_lang or "target")[side]
        findings.append(f"{language}: {pieces / words:.2f} pieces a word, {spelled / words:.1%} of words in bytes")
    sizes = " and ".join(f"{len(vocabulary):,}" for vocabulary in dict.fromkeys(vocabularies))
    finding = f"{sizes} pieces (at most {vocab_size:,}); " + "; ".join(findings)
    if worst_spelled > SPELLED_A_LOT:
        remedy = "is the training text in the language and script of the validation text? If so: a larger "
        remedy += f"text.vocab_size (now {vocab_size:,}), a smaller text.min_frequency, or more text"
        return Check(name, "fail" if worst_spelled > SPELLED_TOO_MUCH else "warn", finding, remedy)
    if most_pieces > PIECES_PER_WORD:
        return Check(name, "warn", finding, f"sentences become long: raise text.vocab_size (now {vocab_size:,})")
    return Check(name, "pass", finding)


def _count(vocabulary: Tokenizer, lines: list[str]) -> tuple[int, int, int]:
    """Words in bytes, words, and pieces."""
    counted = [vocabulary.count_unknown_words(line) for line in lines]
    spelled, words = (sum(column) for column in zip(*counted, strict=True))
    return spelled, max(1, words), sum(map(len, vocabulary.encode_batch(lines)))


def check_lengths(vocabulary: Tokenizer, data: PairDataSettings, found: Survey) -> Check:
    """Held-out lines beyond data.max_length are longer than anything learnt and are translated in parts."""
    name = "held-out lengths"
    shares = {}
    for part in ("valid", "test"):
        lines = [src for src, _ in found.parts[part].sample[:LOOKED_AT]]
        if lines:
            too_long = sum(len(row) + 1 > data.max_length for row in vocabulary.encode_batch(lines))
            shares[part] = too_long / len(lines)
    finding = ", ".join(f"{part} {share:.1%}" for part, share in shares.items())
    finding = f"source lines of more than {data.max_length} tokens, which are cut and translated in parts: {finding}"
    if max(shares.values(), default=0.0) > TOO_LONG_HELD_OUT:
        return Check(name, "warn", finding, "raise data.max_length, or split these lines into sentences")
    return Check(name, "pass", finding)
