"""XLIFF: targets are filled, with the inline elements of their source; everything else stays."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped, unused-ignore]
from tests.documents.translators import anything, identity, refused, translated

FIRST = """<?xml version="1.0" encoding="utf-8"?>\r
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en" target-language="de-DE" original="a"><header><note>Read me</note></header><body>
  <trans-unit id="plain">
    <source>Hello dear friend</source>
    <note>For <b>you</b></note>
  </trans-unit>
  <trans-unit id="tags"><source>Click <g id="1">the red</g> <x id="2"/>button for %s &amp; &lt;b&gt;</source>
    <target/></trans-unit>
  <trans-unit id="codes"><source>See <bpt id="1">&lt;a href="x"&gt;</bpt>the page<ept id="1">&lt;/a&gt;</ept> <ph
    id="3">{br}</ph>now</source></trans-unit>
  <trans-unit id="done"><source>Old words</source><target state="final">Alte Wörter</target>
    <alt-trans><source>Old word</source><target></target></alt-trans></trans-unit>
  <trans-unit id="new"><source>New words</source><target state="new" xml:lang="de">New words</target></trans-unit>
  <trans-unit id="segmented"><source>One a. Two b.</source><seg-source><mrk mid="0" mtype="seg">One a.</mrk> <mrk
  mid="1" mtype="seg">Two b.</mrk></seg-source></trans-unit>
  <trans-unit id="protected"><source>Run <mrk mtype="protected">make all</mrk> first</source></trans-unit>
  <group translate="no"><trans-unit id="kept"><source>Keep this</source></trans-unit>
    <trans-unit id="again" translate="yes"><source>But this</source></trans-unit></group>
  <trans-unit id="number"><source>12 % <x id="1"/></source></trans-unit>
  <trans-unit id="empty"><source/></trans-unit>
  <trans-unit id="cdata"><source><![CDATA[One <two> & three]]></source><!-- c --></trans-unit>
</body></file></xliff>
"""
SECOND = """\ufeff<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">
<unit id="u"><notes><note>Read me</note></notes><originalData><data id="d1">&lt;b&gt;</data></originalData>
<segment id="plain"><source>Hello dear friend</source></segment>
<segment id="tags" state="initial" subState="x:y"><source>Click <pc id="1">the red</pc> <ph id="2"/>button</source>
</segment><ignorable><source> </source></ignorable>
<segment id="codes"><source>See <sc id="1"/>the page<ec startRef="1"/> now</source><target></target></segment>
<segment id="done" state="reviewed"><source>Old words</source><target>Alte Wörter</target></segment></unit>
<unit id="no" translate="no"><segment id="kept"><source>Keep this</source></segment></unit></file></xliff>"""


def targets(content: bytes) -> dict[str, str | None]:
    """The content of the target of each unit, as XML without namespaces."""
    found: dict[str, str | None] = {}
    for unit in etree.fromstring(content).iter("{*}trans-unit", "{*}segment"):
        target = unit.find("{*}target")
        raw = (
            ""
            if target is None
            else re.sub(r' xmlns="[^"]*"', "", etree.tostring(target, encoding="unicode", with_tail=False))
        )
        found[unit.get("id")] = None if target is None else re.sub(r"\A<target[^>]*>|</target>\Z", "", raw)
    return found


def test_targets_of_version_1_are_filled() -> None:
    assert targets(translated("a.xlf", FIRST.encode(), target="de")) == {
        "plain": "FRIEND DEAR HELLO",
        "tags": "&lt;b&gt; &amp; %s FOR <x id=\"2\"/>BUTTON <g id=\"1\">RED THE</g> CLICK",
        "codes": '<ph id="3">{br}</ph>NOW <bpt id="1">&lt;a href="x"&gt;</bpt>PAGE THE<ept id="1">&lt;/a&gt;</ept> SEE',
        "done": "Alte Wörter",
        "new": "WORDS NEW",
        "segmented": '<mrk mid="0" mtype="seg">. A ONE</mrk> <mrk mid="1" mtype="seg">. B TWO</mrk>',
        "protected": 'FIRST <mrk mtype="protected">make all</mrk> RUN',
        "kept": None,
        "again": "THIS BUT",
        "number": '12 % <x id="1"/>',
        "empty": None,
        "cdata": "THREE &amp; &lt;two&gt; ONE",
    }  # fmt: skip


def test_targets_of_version_2_are_filled() -> None:
    result = translated("a.xliff", SECOND.encode(), target="de")
    assert result.startswith("\ufeff<xliff".encode())
    assert targets(result) == {
        "plain": "FRIEND DEAR HELLO",
        "tags": '<ph id="2"/>BUTTON <pc id="1">RED THE</pc> CLICK',
        "codes": 'NOW <sc id="1"/>PAGE THE<ec startRef="1"/> SEE',
        "done": "Alte Wörter",
        "kept": None,
    }
    tree = etree.fromstring(result)
    states = {item.get("id"): (item.get("state"), item.get("subState")) for item in tree.iter("{*}segment")}
    assert states["tags"] == states["plain"] == ("translated", None)
    assert states["done"] == ("reviewed", None) and states["kept"] == (None, None)
    assert tree.get("trgLang") == "de"


def test_states_say_that_a_model_has_translated() -> None:
    tree = etree.fromstring(translated("a.xlf", FIRST.encode()))
    states = {item.get("id"): item.find("{*}target") for item in tree.iter("{*}trans-unit")}
    machine = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
    assert dict(states["plain"].attrib) == dict(states["number"].attrib) == machine
    assert dict(states["done"].attrib) == {"state": "final"}
    assert {**states["new"].attrib} == {**machine, "{http://www.w3.org/XML/1998/namespace}lang": "de"}


def without_targets(content: str) -> str:
    """The file without what may change: filled targets, states, and the target language."""
    content = re.sub(r"\s*<target(?! state=\"final\")(?:/>|[^>]*>.*?</target>)", "", content, flags=re.DOTALL)
    return re.sub(r' (?:state|subState|trgLang)="(?!final|reviewed)[^"]*"', "", content)


@settings(max_examples=60)
@given(st.sampled_from([FIRST, SECOND]), st.integers(0, 1000))
def test_no_translation_breaks_a_file(text: str, seed: int) -> None:
    words = ("x", "Yy", "zzz.", "你", "<", "&", "]]>", "\x07", "⦅0⦆")
    for translate in (identity, anything(seed, words)):
        result = translated("a.xliff", text.encode(), translate, target="de").decode()
        assert without_targets(result).replace("Alte Wörter", "") == without_targets(text).replace("Alte Wörter", "")
        for unit in etree.fromstring(result.encode()).iter("{*}trans-unit", "{*}segment"):
            source, target = unit.find("{*}source"), unit.find("{*}target")
            source = source if unit.find("{*}seg-source") is None else unit.find("{*}seg-source")
            if target is not None and target.text != "Alte Wörter":
                tags = [
                    Counter((item.tag, *item.attrib.items()) for item in part.iter("*")) for part in (source, target)
                ]
                assert tags[0] - tags[1] <= Counter({(source.tag,): 1})
                assert "".join(target.itertext()).count("%s") == "".join(source.itertext()).count("%s")
                names = [str(item.tag).rpartition("}")[2] for item in target.iter("*")]
                assert [name for name in names if name in ("bpt", "ept", "sc", "ec")] in (
                    [],
                    ["bpt", "ept"],
                    ["sc", "ec"],
                )


def test_the_same_text_is_a_translation_too() -> None:
    result = targets(translated("a.xlf", FIRST.encode(), identity))
    assert result["plain"] == "Hello dear friend"
    assert result["cdata"] == "One &lt;two&gt; &amp; three"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_the_encoding_stays(encoding: str) -> None:
    unit = "<trans-unit><source>caf\xe9 au</source></trans-unit>"
    text = f'<?xml version="1.0" encoding="{encoding}"?><xliff version="1.2">{unit}</xliff>'
    result = translated("a.xlf", text.encode(encoding), identity)
    assert etree.fromstring(result).findtext(".//target") == "caf\xe9 au"
    assert result.decode(encoding).startswith(text[:60])


def test_files_that_are_not_xliff_or_for_another_language_are_refused() -> None:
    assert refused("a.xliff", b"") == "damaged-file"
    assert refused("a.xliff", b"<a><source>x</source></a>") == "damaged-file"
    assert refused("a.xliff", b'<xliff version="1.2"><file></xliff>') == "damaged-file"
    assert refused("a.xliff", b'<!DOCTYPE x [<!ENTITY a "b">]><xliff version="1.2"/>') == "damaged-file"
    assert refused("a.xliff", b'<x:xliff xmlns:x="urn:oasis:names:tc:xliff:document:1.2"/>') == "damaged-file"
    assert refused("a.xliff", FIRST.encode(), "target-language", target="fr") == "conflicting-languages"
    assert refused("a.xliff", SECOND.replace("srcLang", 'trgLang="fr" srcLang').encode(), "trgLang", target="de") == (
        "conflicting-languages"
    )
