"""Forms of address: what words say, and the translation that is chosen."""

import pytest

from regard.documents.address import check_formality, choose_form, form_of, has_forms, may_be_other, swap_form
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
    ("Ihr Haus und ihr Garten", "de", "You like the house and its garden.", ""),
    ("Je tiens à vous remercier.", "fr", "", "formal"),
    ("C'est la tienne.", "fr", "", "informal"),
    ("Las baterías están vacías.", "es", "The batteries are empty.", ""),
    ("Cambie las baterías financieras.", "es", "You must change the batteries.", ""),
    ("El contraste es alto.", "es", "The contrast is high.", ""),
    ("Las llamas son altas.", "es", "The flames are high.", ""),
    ("¿Compraste pan?", "es", "Did you buy bread?", "informal"),
    ("迷你裙很短。", "zh", "", ""),
    ("一场你死我活的斗争", "zh", "", ""),
    ("你们好。", "zh", "", ""),
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


def test_a_spanish_phrase_without_a_word_of_address_is_formal_if_it_addresses_somebody() -> None:
    assert may_be_other("¿Cómo está?", "es", "informal", "How are you?", "en")
    assert may_be_other("¿Cómo está?", "es", "informal", "Wie geht es Ihnen?", "de")
    assert not may_be_other("¿Cómo está?", "es", "formal", "How are you?", "en")
    assert not may_be_other("Buenos días", "es", "informal", "Good morning", "en")
    assert not may_be_other("Wie läuft es?", "de", "informal", "How are you?", "en")


def test_chinese_replaces_the_word() -> None:
    assert swap_form("你能帮我吗？", "zh", "formal") == "您能帮我吗？"
    assert swap_form("你们能帮我吗？", "zh", "formal") == "你们能帮我吗？"
    assert swap_form("你的迷你裙", "zh", "formal") == "您的迷你裙"
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
