"""regard's own API over tiny runs."""

from tests.serve.make import Client
from tests.tiny import number_sentences, translate_words


def test_translate_one_and_several(client: Client) -> None:
    lines = number_sentences()[:5]
    answer = client.post("/v1/translate", json={"text": lines, "source": "en", "target": "de"})
    assert answer.status_code == 200, answer.text
    assert [item["text"] for item in answer.json()["translations"]] == [translate_words(line) for line in lines]
    answer = client.post("/v1/translate", json={"text": lines[0]})
    (item,) = answer.json()["translations"]
    assert item["text"] == translate_words(lines[0])
    assert (item["source"], item["detected"][0]["language"]) == ("en", "en")
