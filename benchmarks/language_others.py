"""Texts in none of the languages of the classifier that comes with regard (its class `other`), made at random.

    script       letters of another script
    japanese     kana and Chinese characters: nouns with particles, verbs with endings, or kana in any order
    latin        words of the five languages with letters exchanged, some of them for foreign letters
    neighbour    sentences of a near language with the spelling and the small words of another one (Portuguese, Italian,
                 Dutch, Swedish, Danish), and frequent words of more languages with Latin letters
    symbol       numbers, dates, punctuation, emoji, hexadecimal numbers

The data sets have no text in other languages with Latin letters. The rules and words of `neighbour` are written here by
hand; Czech is not among them, so that it can be a test.
"""

import hashlib
import random
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

SCRIPTS = {
    "Arabic": "0627-063A 0641-064A", "Armenian": "0561-0586", "Bengali": "0985-09B9 09BE-09CD",
    "Cyrillic": "0430-044F 0451-045F 0490-0491", "Devanagari": "0905-0939 093E-094D", "Ethiopic": "1200-1240",
    "Georgian": "10D0-10F0", "Greek": "03B1-03C9 03AC-03AF 03CC-03CE", "Hangul": "AC00-D7A3", "Hebrew": "05D0-05EA",
    "Hiragana": "3042-3093", "Katakana": "30A2-30F3", "Khmer": "1780-17B3",
    "Persian": "0627-063A 0641-064A 067E 0686 0698 06AF", "Tamil": "0B85-0BB9 0BBE-0BCD", "Telugu": "0C05-0C39",
    "Thai": "0E01-0E2E 0E30-0E39 0E40-0E49",
}  # fmt: skip
"""Letters of other scripts, as ranges of code points."""
FOREIGN_LATIN = "ăąåãāćčďđěęėğģıīķļłňńőõřśšșşťțţůűūźżžøþðŵŷ"
"""Letters of Latin alphabets that the five languages do not use."""
LATIN = ("de", "en", "es", "fr")
VOWELS, CONSONANTS = "aeiou", "bcdfghjklmnpqrstvwxz"


@dataclass(frozen=True)
class Source:
    """What the texts are made from."""

    draw: Callable[[str], str]
    """A random sentence of a language."""
    known: Collection[str]
    """The words of the five languages, in small letters."""


def letters_of(script: str) -> str:
    ranges = [part.split("-") for part in SCRIPTS[script].split()]
    codes = [code for ends in ranges for code in range(int(ends[0], 16), int(ends[-1], 16) + 1)]
    return "".join(letter for letter in map(chr, codes) if unicodedata.category(letter)[0] in "LM")


LETTERS = {script: letters_of(script) for script in SCRIPTS}


def is_chinese(letter: str) -> bool:
    return "\u3400" <= letter <= "\u9fff"


def random_word(rng: random.Random, letters: str, longest: int = 9) -> str:
    return "".join(rng.choices(letters, k=rng.randint(1, longest)))


def script_text(rng: random.Random, source: Source) -> str:
    """Random letters of another script, sometimes with a Latin word or in capitals."""
    script = rng.choice(list(LETTERS))
    words = [random_word(rng, LETTERS[script]) for _ in range(rng.choice([1, 1, 2, 3, rng.randint(4, 8)]))]
    if len(words) > 3 and rng.random() < 0.25:
        words[rng.randrange(len(words))] = rng.choice(["Tom", "SQL", "Windows", "Python", "COVID-19", "OK", "API"])
    text = "".join(words) if script in ("Thai", "Khmer") else " ".join(words)
    return text.upper() if rng.random() < 0.1 else text.capitalize() if rng.random() < 0.3 else text


# ---- Japanese --------------------------------------------------------------------------------------------------------

PARTICLES, FIRST, ENDINGS = (
    line.split()
    for line in """
は が の を に で と も から まで へ や には では の の は を
この その あの これ それ ここ また しかし そして もう まだ とても すべて
です でした だ だった である ます ました ません する した して している された される しない ない なかった \
たい く いた いて んだ んで った って る れる れた える えた い かった せる ください でしょう ですか ましょう
""".strip().splitlines()
)


def japanese_text(rng: random.Random, source: Source) -> str:
    """Nouns of Chinese characters or Katakana with particles, then a verb with its ending; or kana in any order."""
    chinese = "".join(filter(is_chinese, source.draw("zh"))) or "日"
    if rng.random() < 0.2:
        kana = LETTERS["Hiragana"] if rng.random() < 0.8 else LETTERS["Katakana"]
        sizes = [(rng.randint(0, 2), rng.randint(1, 4)) for _ in range(rng.randint(1, 10))]
        return "".join(slice_of(rng, chinese, first) + "".join(rng.choices(kana, k=last)) for first, last in sizes)
    phrases = [japanese_noun(rng, chinese) + rng.choice(PARTICLES) for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 6]))]
    if len(phrases) > 2 and rng.random() < 0.5:
        phrases[rng.randrange(1, len(phrases))] += "、"
    verb = slice_of(rng, chinese, rng.randint(1, 2)) + rng.choice(ENDINGS) if rng.random() < 0.8 else chinese[:2]
    first = rng.choice(FIRST) if rng.random() < 0.2 else ""
    return first + "".join(phrases) + verb + rng.choice(["", "。", "。", "！", "？"])


def japanese_noun(rng: random.Random, chinese: str) -> str:
    if rng.random() < 0.2:
        return "".join(rng.choices(LETTERS["Katakana"] + "ーー", k=rng.randint(2, 6)))
    return slice_of(rng, chinese, rng.choice([1, 2, 2, 3, 4]))


def slice_of(rng: random.Random, text: str, length: int) -> str:
    start = rng.randint(0, max(0, len(text) - length))
    return text[start : start + length]


# ---- Latin letters ---------------------------------------------------------------------------------------------------


def latin_text(rng: random.Random, source: Source) -> str:
    """Words of the five languages with letters exchanged, some of them for letters that none of the languages has."""
    units = source.draw(rng.choice(LATIN)).split()
    number = rng.choice([1, 1, 2, 3, 5, 8])
    start = rng.randint(0, max(0, len(units) - number))
    part = " ".join(units[start : start + number]).strip(" ,.;:!?…«»“”„\"'()[]")
    table = exchange_table(rng) if rng.random() < 0.5 else None
    changed = []
    for word in part.split():
        letters = list(word.translate(table) if table else word)
        if not table:
            rng.shuffle(letters)
        if rng.random() < (0.35 if table else 0.6):
            letters[rng.randrange(len(letters))] = rng.choice(FOREIGN_LATIN)
        changed.append("".join(letters))
    return " ".join(changed)


def exchange_table(rng: random.Random) -> dict[int, int]:
    """Other vowels for vowels and other consonants for consonants: words that can be spoken, of no language."""
    table: dict[int, int] = {}
    for letters in (VOWELS, CONSONANTS):
        mixed = "".join(rng.sample(letters, len(letters)))
        table |= str.maketrans(letters + letters.upper(), mixed + mixed.upper())
    return table


SPELLINGS = """
pt es
el:o la:a los:os las:as y:e un:um una:uma no:não en:em con:com muy:muito del:do al:ao yo:eu es:é mi:meu más:mais \
usted:você tú:você su:seu qué:o,que si:se pero:mas hay:há tiene:tem ella:ela él:ele lo:o le:lhe eso:isso esto:isto \
bien:bem hoy:hoje ayer:ontem mañana:amanhã gracias:obrigado señor:senhor donde:onde
ciones:ções ción:ção siones:sões sión:são ñ:nh ll:lh ue:o ie:e ón$:ão dad$:dade ía$:ia
it es
el:il los:gli las:le y:e no:non en:in muy:molto yo:io es:è mi:mio más:più usted:lei tú:tu su:suo qué:che,cosa \
que:che si:se pero:ma hay:c'è tiene:ha ella:lei él:lui por:per eso:questo esto:questo bien:bene hoy:oggi ayer:ieri \
mañana:domani gracias:grazie donde:dove está:sta de:di
ciones:zioni ción:zione sión:sione ñ:gn qu:ch ll:gli ue:uo ie:i dad$:tà os$:i as$:e es$:i ct:tt pt:tt h: ado$:ato \
ada$:ata
nl de
der:de die:de das:het den:de dem:het ein:een eine:een einen:een und:en nicht:niet ist:is ich:ik du:je er:hij sie:ze \
wir:we es:het mit:met von:van zu:te auf:op für:voor was:wat wie:hoe auch:ook sind:zijn haben:hebben habe:heb \
hat:heeft dass:dat aber:maar wenn:als so:zo mein:mijn sein:zijn noch:nog nur:maar gut:goed sehr:heel
ei:ij zz:tt ß:t z:t au:ou ü:uu ö:eu ä:aa tz:t pf:p ff:p u:oe
sv de
der:den die:de das:det ein:en eine:en einen:en und:och nicht:inte ist:är ich:jag er:han sie:hon wir:vi es:det \
mit:med von:av zu:till auf:på für:för was:vad wie:hur auch:också sind:är haben:har habe:har hat:har dass:att \
aber:men wenn:om mein:min sein:hans noch:än nur:bara gut:bra sehr:mycket
sch:sk ch:k ei:e en$:a z:t ß:t ü:y au:ö w:v ie:i tz:tt pf:p ung$:ning
da de
der:den die:de das:det ein:en eine:et einen:en und:og nicht:ikke ist:er ich:jeg er:han sie:hun wir:vi es:det mit:med \
von:af zu:til auf:på für:for was:hvad wie:hvordan auch:også sind:er haben:har habe:har hat:har dass:at aber:men \
wenn:hvis mein:min sein:hans noch:endnu nur:kun gut:godt sehr:meget
sch:sk ch:g ei:e en$:e z:t ß:d ü:y ö:ø ä:æ au:av w:v ie:i tz:t pf:p ung$:ning
"""
"""Three lines for each language: its name and the language whose sentences are changed; small words; parts of words."""
FREQUENT = """
pt não você isso então também muito obrigado obrigada olá bom dia boa noite sim eu ele ela nós são está fazer coisa \
quando porque agora ainda até depois minha seu uma um com para mais pessoas trabalho hoje amanhã
it ciao grazie prego buongiorno buonasera sono sei siamo è che non perché anche questo questa quello della degli \
nella molto bene sempre adesso oggi domani ieri cosa fare voglio essere stato tutti gli ogni più io ho hai
nl een het niet ik jij hij wij zijn hebben heeft goedemorgen dank bedankt alsjeblieft hoe gaat met ook maar nog naar \
voor deze goed veel mensen vandaag morgen gisteren weet zeggen kunnen moeten willen huis water
sv jag är inte och det att som på för med har hej tack god morgon hur mår du vad ska göra vill kan också mycket idag \
imorgon mitt barn hus vatten bra från eller efter
da jeg er ikke og det at som på for med har hej tak godmorgen hvordan hvad skal gøre vil kan også meget dag morgen \
mit børn hus vand godt fra eller efter ved nogen
pl nie jest się to jak na z że do dzień dobry dziękuję proszę tak co robić wiem mam był była jestem bardzo dobrze \
dzisiaj jutro dom woda dzieci gdzie kiedy dlaczego
ro nu este și în care pentru mai bună ziua mulțumesc te rog da ce fac sunt ești foarte bine astăzi mâine casă apă \
copii unde când după acest
tr bir ve bu için çok merhaba günaydın teşekkürler evet hayır nasılsın ne değil var yok ben sen iyi bugün yarın ev \
su çocuk nerede nasıl daha gibi
fi ei on ja että se hän olen kiitos hyvää huomenta päivää moi mitä kuuluu missä tämä mutta kun niin hyvin tänään \
huomenna talo vesi lapset minä sinä
hu nem és hogy egy van jó reggelt köszönöm igen mit hol vagyok nagyon ez az ma holnap ház víz gyerek miért mert
id saya tidak yang dan ini itu dengan untuk selamat pagi terima kasih apa kabar ya anda kamu akan bisa sudah rumah \
air anak hari besok dimana
hr nije sam što kako dobar dan hvala da li gdje kuća voda djeca danas sutra vrlo dobro ali jer ovaj biti imam
vi không là và của có tôi bạn xin chào cảm ơn được cho này người một những đi nhà nước hôm nay
sw habari ya asubuhi asante sana ndiyo hapana mimi wewe ni na kwa nyumba maji watoto leo kesho nzuri
"""
"""Frequent words of languages with Latin letters, one language a line."""
LANGUAGE_WORDS = [line.split()[1:] for line in FREQUENT.strip().splitlines()]
Pairs = list[tuple[str, str]]


def read_spellings(text: str) -> list[tuple[str, dict[str, str], Pairs]]:
    """Of each language: the near language, its small words, and what replaces parts of other words."""

    def pairs(line: str) -> Pairs:
        return [(old, new.replace(",", " ")) for old, _, new in (pair.partition(":") for pair in line.split())]

    lines = text.strip().splitlines()
    return [
        (names.split()[1], dict(pairs(small)), pairs(parts))
        for names, small, parts in zip(lines[::3], lines[1::3], lines[2::3], strict=True)
    ]


RULES = read_spellings(SPELLINGS)


def neighbour_text(rng: random.Random, source: Source) -> str:
    """A sentence of a near language in another spelling, or some frequent words of another language."""
    words = respelled(rng, source) if rng.random() < 0.5 else []
    text = " ".join(words or frequent_words(rng, source))
    text = text[0].upper() + text[1:] if rng.random() < 0.5 else text.lower()
    return text + rng.choice(["", "", ".", "!", "?"])


def frequent_words(rng: random.Random, source: Source) -> list[str]:
    """Words of one language; at least one is in none of the five languages."""
    words = rng.choice(LANGUAGE_WORDS)
    foreign = [word for word in words if word not in source.known]
    return [*rng.sample(words, rng.choice([0, 1, 2, 3, 5, 7])), rng.choice(foreign)]


def respelled(rng: random.Random, source: Source) -> list[str]:
    """A part of a sentence in another spelling; nothing if most of its words are words of the five languages."""
    near, small, parts = rng.choice(RULES)
    words = re.findall(r"\w+", source.draw(near))[: rng.choice([2, 3, 4, 6, 9, 12])]
    changed = [small.get(word.lower()) or respell(word, parts) for word in words]
    foreign = [new for new in changed if new and not any(part in source.known for part in new.lower().split())]
    return changed if len(foreign) >= 0.4 * len(words) else []


def respell(word: str, parts: Pairs) -> str:
    for old, new in parts:
        word = re.sub(old, new, word)
    return word


def symbol_text(rng: random.Random, source: Source) -> str:
    """Numbers, dates, punctuation, emoji and hexadecimal numbers."""
    number = str(rng.randint(0, 10 ** rng.randint(1, 9)))
    emoji = "".join(rng.choices("😀🎉👍❤🚀🙂", k=rng.randint(1, 4)))
    choices = [
        number, f"{number[:2]}.{number[-2:]}.{rng.randint(1990, 2030)}", "".join(rng.choices("!?.,;:-…()/*#=+", k=5)),
        emoji, f"{number} {emoji}", hashlib.md5(number.encode()).hexdigest()[: rng.randint(6, 32)],
    ]  # fmt: skip
    return rng.choice(choices)


OTHERS = {script_text: 0.3, japanese_text: 0.2, latin_text: 0.2, neighbour_text: 0.25, symbol_text: 0.05}


def make_others(rng: random.Random, source: Source, count: int) -> Iterator[tuple[str, str]]:
    """Texts in none of the languages, and how each was made."""
    for make in rng.choices(list(OTHERS), list(OTHERS.values()), k=count):
        yield make(rng, source), make.__name__.removesuffix("_text")
