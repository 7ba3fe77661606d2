"""Forms of address: what words say, and the translation that is chosen."""

import pytest

from regard.documents.address import check_formality, choose_form, form_of, has_forms, swap_form
from regard.errors import UserError

SENTENCES = [
    ("Können Sie mir helfen?", "de", "", "formal"),
    ("Kannst du mir helfen?", "de", "", "informal"),
    ("Sie ist hier.", "de", "She is here.", ""),
    ("Sie sind spät.", "de", "You are late.", "formal"),
    ("Ihr seid spät, wenn Sie warten.", "de", "", "formal"),
    ("Hast du Ihnen geholfen?", "de", "", "mixed"),
    ("Vous êtes en retard.", "fr", "", "formal"),
    ("Je t'aime.", "fr", "", "informal"),
    ("Il pleut.", "fr", "", ""),
    ("¿Puede usted venir?", "es", "", "formal"),
    ("¿Qué haces?", "es", "", "informal"),
    ("您好。", "zh", "", "formal"),
    ("你好。", "zh-CN", "", "informal"),
    ("You", "en", "", ""),
]


@pytest.mark.parametrize(("text", "language", "source", "form"), SENTENCES)
def test_form(text: str, language: str, source: str, form: str) -> None:
    assert form_of(text, language, source) == form


def test_the_best_text_in_the_wanted_form_is_chosen() -> None:
    texts = ["Kannst du kommen?", "Können Sie kommen?", "Kommen Sie?"]
    assert choose_form(texts, "Can you come?", "de", "formal") == 1
    assert choose_form(texts, "Can you come?", "de", "informal") == 0
    assert choose_form(texts[:1], "Can you come?", "de", "formal") is None
    assert choose_form(["¿Puedes venir?", "¿Puede venir?"], "Can you come?", "es", "formal") == 1


def test_chinese_replaces_the_word() -> None:
    assert swap_form("你能帮我吗？", "zh", "formal") == "您能帮我吗？"
    assert swap_form("你们能帮我吗？", "zh", "formal") == "你们能帮我吗？"
    assert swap_form("您能帮我吗？", "zh", "informal") == "你能帮我吗？"
    assert swap_form("Kannst du?", "de", "formal") is None


def test_languages_without_forms_are_refused_unless_it_is_a_preference() -> None:
    assert has_forms("DE") and not has_forms("en") and not has_forms(None)
    check_formality("prefer_more", "en")
    check_formality("more", "fr")
    with pytest.raises(UserError, match="cannot be chosen"):
        check_formality("less", "en")
    with pytest.raises(UserError, match="unknown formality"):
        check_formality("polite", "de")
