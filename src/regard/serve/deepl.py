"""DeepL's API, version 2: translate, languages, usage. Its official clients work with the address of this server.

    deepl.DeepLClient("any key", server_url="http://127.0.0.1:5000").translate_text("Hello", target_lang="DE")

Codes are in upper case; English and Portuguese have regional targets (EN-US, PT-BR), which are one language here.
Errors are {"message": "..."}. The characters of /v2/usage are those since the start of the server; there is no limit.
"""

from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.documents.address import WANTED, has_forms
from regard.serve.access import access_of
from regard.serve.errors import ServiceError, text_format
from regard.serve.fields import RequestFields, as_glossary, as_texts, invalid, read_fields, request_body
from regard.serve.languages import ServedLanguages, name_of
from regard.serve.service import Service, TranslateRequest
from regard.serve.settings import ServeSettings

PREFIX = "/v2"
ERRORS = text_format("message", {401: 403, 422: 400})
"""DeepL responds with 400 to a wrong request, and with 403 without a key."""
NO_LIMIT = 1_000_000_000_000
"""The limit of characters that DeepL states for an account without one."""
VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
    "zh": {"ZH": "Chinese (simplified)", "ZH-HANS": "Chinese (simplified)"},
}
"""The targets that stand for one language, and their names."""
FORMATS = {"": "text", "html": "html", "xml": "html"}
MODEL_TYPE = "latency_optimized"
REFUSED = ("glossary_id", "glossary_ids", "style_id", "custom_instructions", "ignore_tags")
"""Fields whose meaning would be lost if they were ignored."""


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of DeepL's API."""
    api = DeepL(service, settings)
    router = APIRouter(tags=["DeepL"], prefix=PREFIX, responses=ERRORS.responses)
    router.post("/translate", openapi_extra=request_body("deepl/translate"))(api.translate)
    for path, respond in (("/languages", api.languages), ("/usage", api.usage)):
        router.post(path, include_in_schema=False)(respond)
        router.get(path)(respond)
    return router


@dataclass
class DeepL:
    """The responses of DeepL's API, from the fields of a request to JSON."""

    service: Service
    settings: ServeSettings
    characters: int = 0

    async def read(self, request: Request) -> RequestFields:
        """The fields of a request, if its key is allowed; the Python client sends them with GET in a body."""
        fields = await read_fields(request, self.settings.max_body)
        try:
            access_of(request).check(request, fields.text("auth_key"))
        except ServiceError as error:
            if error.code == "too-many-requests":
                raise
            problem = "Authorization failed. Send the header Authorization: DeepL-Auth-Key KEY."
            raise ServiceError(error.code, problem) from error
        return fields

    async def translate(self, request: Request) -> Response:
        """Translate texts."""
        fields = await self.read(request)
        parsed = self.parse(fields)
        try:
            translated = await self.service.translate(parsed)
        except ServiceError as error:
            if error.code in ("unknown-pair", "unknown-language"):
                raise invalid("Value for 'target_lang' not supported.", error.where) from error
            raise
        self.characters += sum(map(len, parsed.texts))
        billed = fields["show_billed_characters"]
        is_billed = billed == 1 or (isinstance(billed, str) and billed.lower() in ("1", "true"))
        responses: list[dict[str, object]] = []
        for text, item in zip(parsed.texts, translated, strict=True):
            response: dict[str, object] = {"detected_source_language": item.source.upper(), "text": item.text}
            if is_billed:
                response["billed_characters"] = len(text)
            if fields["model_type"]:
                response["model_type_used"] = MODEL_TYPE
            responses.append(response)
        return JSONResponse({"translations": responses})

    async def usage(self, request: Request) -> Response:
        """The characters translated since the start of the server."""
        await self.read(request)
        return JSONResponse({"character_count": self.characters, "character_limit": NO_LIMIT})

    def parse(self, fields: RequestFields) -> TranslateRequest:
        """The request that the fields mean."""
        if fields["text"] is None or fields["text"] == []:
            raise invalid("Parameter 'text' not specified.", "text")
        texts = as_texts(fields["text"], "text")
        tags, formality = fields["tag_handling"] or "", fields["formality"] or "default"
        if not isinstance(tags, str) or tags not in FORMATS:
            raise invalid("Value for 'tag_handling' not supported.", "tag_handling")
        if not isinstance(formality, str) or formality not in WANTED:
            raise invalid("Value for 'formality' not supported.", "formality")
        for name in REFUSED:
            if fields[name]:
                raise invalid(f"Parameter '{name}' is not supported.", name)
        if not fields["target_lang"]:
            raise invalid("Value for 'target_lang' not supported.", "target_lang")
        languages = self.service.languages()
        source = find(languages, fields["source_lang"], "source_lang") if fields["source_lang"] else None
        target = find(languages, fields["target_lang"], "target_lang")
        if formality in ("more", "less") and not has_forms(target):
            raise invalid("'formality' is not supported for given 'target_lang'.", "formality")
        terms = as_glossary(fields["glossary"])
        return TranslateRequest(texts, source, target, FORMATS[tags], glossary=terms, formality=formality)

    async def languages(self, request: Request) -> Response:
        """The source languages, or with type=target the target languages."""
        fields = await self.read(request)
        kind = fields["type"] or "source"
        if kind not in ("source", "target"):
            raise invalid("Value for 'type' not supported.", "type")
        languages = self.service.languages()
        if kind == "source":
            sources = [code for code in languages.codes if languages.targets(code)]
            return JSONResponse([{"language": code.upper(), "name": name_of(code)} for code in sources])
        targets = [code for code in languages.codes if code in {target for _, target in languages.pairs}]
        names = [item for code in targets for item in VARIANTS.get(code, {code.upper(): name_of(code)}).items()]
        described = [{"language": code, "name": name, "supports_formality": has_forms(code)} for code, name in names]
        return JSONResponse(described)


def find(languages: ServedLanguages, code: object, name: str) -> str:
    """Our code of a language or of one of its variants; a ServiceError if no run knows it."""
    text = code if isinstance(code, str) else ""
    main = next((main for main, variants in VARIANTS.items() if text.upper() in variants), text)
    found = languages.find(text) or languages.find(main)
    if found is None:
        raise invalid(f"Value for '{name}' not supported.", name)
    return found
