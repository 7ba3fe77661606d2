"""One server of the bundled translator, an imported Marian and an imported package of Argos Translate."""

from pathlib import Path

import pytest
from tests.exchange.test_ctranslate2_reader import write_package
from tests.exchange.test_marian_tokenizers import write_marian_folder
from tests.serve.make import Client, make_app, stop

from regard.run.importing import import_model
from regard.run.model import Translator
from regard.run_files import TRANSLATOR

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend


def test_imported_runs_are_served_beside_the_bundled_one(tmp_path: Path) -> None:
    write_marian_folder(tmp_path / "opus")
    runs = {"en-fi": tmp_path / "en-fi", "argos": tmp_path / "argos-run", TRANSLATOR: Path(TRANSLATOR)}
    import_model(tmp_path / "opus", runs["en-fi"])
    import_model(write_package(tmp_path / "en_de.argosmodel"), runs["argos"])
    app = make_app(runs, ["en-fi=en:fi"])
    client, text = Client(app), "the cat"
    served = {run["name"]: run["directions"] for run in client.get("/v1/runs").json()["runs"]}
    fi, de, fr = ({"source": "en", "target": code} for code in ("fi", "de", "fr"))
    assert (served["en-fi"], served["argos"]) == ([fi], [de])
    assert de in served[TRANSLATOR] and fr in served[TRANSLATOR]

    def translate(**values: str) -> str:
        answer = client.post("/v1/translate", json={"text": text, "source": "en", **values})
        translation: str = answer.json()["translations"][0]["text"]
        return translation

    def alone(name: str, target: str) -> str:
        return Translator.load(runs[name], device="cpu").translate(text, source="en", target=target)

    assert translate(target="fi") == Translator.load(runs["en-fi"], device="cpu").translate(text)
    assert translate(target="de") == alone("argos", "de"), "of two runs for one direction the first is used"
    assert translate(target="de", run=TRANSLATOR) == alone(TRANSLATOR, "de") != translate(target="de")
    assert translate(target="fr") == alone(TRANSLATOR, "fr")
    stop(app.state.service)
