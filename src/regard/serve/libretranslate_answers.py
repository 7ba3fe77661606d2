"""The answers of LibreTranslate's API, without HTTP: from the fields of a request to JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request

from regard.bundled.identification import Detected
from regard.documents.files import FILE_FORMATS
from regard.serve.access import access_of
from regard.serve.errors import ServiceError
from regard.serve.fields import RequestFields, as_glossary, as_texts, invalid, read_fields
from regard.serve.languages import Languages, name_of, public_code
from regard.serve.match_style import match_source_style
from regard.serve.service import Service, TranslatedText, TranslateRequest
from regard.serve.settings import ServeSettings

AUTO = "auto"
FORMATS = ("text", "html")
NOTHING_DETECTED = {"confidence": 0.0, "language": "en"}
MAX_DETECTED, LEAST_CONFIDENCE = 3, 0.001
"""Languages of a detection, and the smallest probability of one."""
MAX_SHOWN = 40
"""Characters of a wrong value that an error repeats."""


@dataclass(frozen=True)
class LibreTranslate:
    """The answers of LibreTranslate's API, from the fields of a request to JSON."""

    service: Service
    settings: ServeSettings

    @property
    def languages(self) -> Languages:
        """The languages of the runs that are served now."""
        return Languages.of(self.service.directions())

    async def read(self, request: Request) -> RequestFields:
        """The fields of a request, if its key is allowed and it is not one too many."""
        fields = await read_fields(request, self.settings.max_body)
        try:
            access_of(request).check(request, fields.text("api_key"))
        except ServiceError as error:
            raise access_error(error, self.settings) from error
        return fields

    # ---- translate --------------------------------------------------------------------------------------------------

    async def translate(self, fields: RequestFields) -> dict[str, object]:
        """The answer of /translate."""
        require(fields, "q", "source", "target")
        texts = as_texts(fields["q"], "q")
        self.check_size(texts)
        alternatives = self.read_alternatives(fields["alternatives"])
        source, target = self.find_pair(fields)
        format = fields["format"] or "text"
        if format not in FORMATS:
            raise invalid(f"{shown(format)} format is not supported", "format")
        nbest = alternatives if format == "text" else 0
        request = TranslateRequest(texts, source, target, str(format), nbest, as_glossary(fields["glossary"]))
        found = await self.translate_all(request)
        translated = [with_source_style(request, *pair) for pair in zip(texts, found, strict=True)]
        single = not isinstance(fields["q"], list)
        answer: dict[str, object] = {"translatedText": one_or_all([item.text for item in translated], single)}
        if alternatives > 0:
            answer["alternatives"] = one_or_all([item.alternatives for item in translated], single)
        if source is None:
            detected = [detections(item.detected or [])[0] for item in translated]
            answer["detectedLanguage"] = one_or_all(detected, single)
        return answer

    async def translate_all(self, request: TranslateRequest) -> list[TranslatedText]:
        """The translation of each text; the error of a missing pair has LibreTranslate's text."""
        try:
            return await self.service.translate(request)
        except ServiceError as error:
            raise pair_error(error) from error

    def check_size(self, texts: Sequence[str]) -> None:
        """Raise ServiceError for too many texts, or too many characters of all of them."""
        counts = (
            (len(texts), self.settings.max_batch_texts),
            (sum(map(len, texts)), self.settings.max_characters),
        )
        for count, limit in counts:
            if count > limit:
                raise invalid(f"Invalid request: request ({count}) exceeds text limit ({limit})", "q")

    def read_alternatives(self, value: object) -> int:
        """The number of alternatives, from a number or its text."""
        try:
            number = int(value) if isinstance(value, str | int | float) else 0
        except (ValueError, OverflowError) as error:
            raise invalid("Invalid request: alternatives parameter is not a number", "alternatives") from error
        if isinstance(value, list | dict):
            raise invalid("Invalid request: alternatives parameter is not a number", "alternatives")
        limit = self.settings.max_alternatives
        if number > limit:
            raise invalid(f"Invalid request: alternatives parameter must be <= {limit}", "alternatives")
        return max(0, number)

    def find_pair(self, fields: RequestFields) -> tuple[str | None, str]:
        """Our codes of the source language, None for auto, and of the target language."""
        languages = self.languages
        source = None if fields.text("source").lower() == AUTO else find(languages.find_source, fields["source"])
        return source, find(languages.find, fields["target"])

    # ---- other answers ----------------------------------------------------------------------------------------------

    async def detect(self, fields: RequestFields) -> list[dict[str, object]]:
        """The answer of /detect; the languages of several texts are joined, each with its greatest confidence."""
        require(fields, "q")
        texts = as_texts(fields["q"], "q")
        self.check_size(texts)
        return detections([item for found in await self.service.detect(texts) for item in found])

    def list_languages(self) -> list[dict[str, object]]:
        """The answer of /languages. Each language is one of its own targets: such text stays as it is."""
        languages = self.languages
        return [
            {
                "code": public_code(source),
                "name": name_of(source),
                "targets": sorted(public_code(target) for target in {*languages.targets(source), source}),
            }
            for source in languages.codes
        ]

    def frontend_settings(self, keys: bool) -> dict[str, object]:
        """The answer of /frontend/settings; `keys`: requests need a key."""
        codes = self.languages.codes
        target = next((code for code in codes if code != "en"), "en")
        return {
            "apiKeys": keys,
            "charLimit": self.settings.max_characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": keys,
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": public_code(target), "name": name_of(target)},
            },
            "suggestions": False,
            "supportedFilesFormat": list(FILE_FORMATS),
        }


# ---- helpers --------------------------------------------------------------------------------------------------------


def access_error(error: ServiceError, settings: ServeSettings) -> ServiceError:
    """The error of a wrong key or of too many requests, in LibreTranslate's words."""
    texts = {
        "wrong-key": "Invalid API key",
        "missing-key": "Please contact the server operator to get an API key",
        "too-many-requests": f"Slowdown: {settings.requests_per_minute} per 1 minute",
    }
    return ServiceError(error.code, texts[error.code], retry_after=error.retry_after)


def require(fields: RequestFields, *names: str) -> None:
    """Raise ServiceError if a field is absent or empty."""
    for name in names:
        if not fields[name]:
            raise invalid(f"Invalid request: missing {name} parameter", name)


def find(search: Callable[[str], str | None], code: object) -> str:
    """Our code of a language; a ServiceError if no run knows it."""
    found = search(code) if isinstance(code, str) else None
    if found is None:
        raise invalid(f"{shown(code).lower()} is not supported", "language")
    return found


def shown(value: object) -> str:
    """A wrong value for an error, shortened."""
    text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def pair_error(error: ServiceError) -> ServiceError:
    """The error of a missing pair in LibreTranslate's words; any other as it is."""
    if error.code != "unknown-pair":
        return error
    source, _, target = error.where.partition(":")
    names = [f"{name_of(code)} ({public_code(code)})" for code in (target, source)]
    return invalid(f"{names[0]} is not available as a target language from {names[1]}", error.where)


def with_source_style(request: TranslateRequest, source: str, item: TranslatedText) -> TranslatedText:
    """A translation with the case and the final mark of its source; HTML stays as it is."""
    if request.format != "text":
        return item
    texts = (item.text, *item.alternatives)
    first, *others = (match_source_style(source, text, request.target or "") for text in texts)
    return replace(item, text=first, alternatives=[text for text in dict.fromkeys(others) if text != first])


def detections(found: Sequence[Detected]) -> list[dict[str, object]]:
    """Detected languages as LibreTranslate writes them, best first, each once; those of no probability are left out."""
    best = {item.language: item.confidence for item in sorted(found, key=lambda item: item.confidence)}
    languages: list[dict[str, object]] = [
        {"confidence": round(100 * confidence, 1), "language": public_code(language)}
        for language, confidence in reversed(best.items())
        if confidence >= LEAST_CONFIDENCE
    ]
    return languages[:MAX_DETECTED] or [dict(NOTHING_DETECTED)]


def one_or_all(values: Sequence[object], single: bool) -> object:
    """The only value, if the request had one text and no list."""
    return values[0] if single else values
