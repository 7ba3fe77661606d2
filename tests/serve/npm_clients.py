"""JavaScript clients against a server of regard: LibreTranslate's and the official one of DeepL.

    python -m tests.serve.npm_clients        needs node and npm, and the registry of npm

They are installed into a temporary folder, without running their installation scripts.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = ("libretranslate@1.0.1", "libretranslate-ts@0.5.12", "translate@3.1.0", "deepl-node@1.28.0")
SCRIPT = """
const address = process.argv[2];
const text = "one two three";
const results = {};
async function attempt(name, call) {
  try { results[name] = await call(); } catch (error) { results[name] = `${error}`; }
}
await attempt("libretranslate", async () => {
  const { default: package_ } = await import("libretranslate");
  return await package_.translate({ query: text, source: "en", target: "de", apiurl: address });
});
await attempt("libretranslate-ts", async () => {
  const { default: package_ } = await import("libretranslate-ts");
  package_.libreTranslate.setApiEndpoint(address);
  const languages = await package_.libreTranslate.listLanguages();
  const detected = await package_.libreTranslate.detect(text);
  const answer = await package_.libreTranslate.translate(text, "en", "de");
  return languages.length && detected.language === "en" ? answer.translatedText : [languages, detected];
});
await attempt("translate", async () => {
  const { Translate } = await import("translate");
  return await Translate({ engine: "libre", url: `${address}/translate`, from: "en" })(text, { to: "de" });
});
await attempt("deepl-node", async () => {
  const { default: deepl } = await import("deepl-node");
  const client = new deepl.DeepLClient("any key", { serverUrl: address, sendPlatformInfo: false });
  const languages = await client.getTargetLanguages();
  const usage = await client.getUsage();
  const answers = await client.translateText([text, "six five four"], null, "de");
  const known = languages.some((language) => language.code === "de") && usage.character;
  return known && answers[1].text === "sechs fünf vier" ? answers[0].text : [languages, usage, answers];
});
console.log(JSON.stringify(results));
"""


def install(folder: Path) -> None:
    """Install the clients into a folder."""
    (folder / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run(["npm", "install", *options, *PACKAGES], cwd=folder, check=True, capture_output=True, timeout=300)


def run_clients(address: str, folder: Path) -> dict[str, object]:
    """The translation of "one two three" by each client that is installed in a folder; an error as text."""
    (folder / "clients.mjs").write_text(SCRIPT, encoding="utf-8")
    command = ["node", "clients.mjs", address]
    result = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120)
    found: dict[str, object] = json.loads(result.stdout)
    return found


def main() -> int:
    """Train a tiny run, serve it and print the result of each client."""
    from tests.serve.make import make_app, running, stop
    from tests.tiny import train_run

    if not shutil.which("npm"):
        print("npm is not installed")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder)
        app = make_app({"numbers": train_run(folder / "run", "translation")}, ["numbers=en:de"])
        with running(app) as address:
            found = run_clients(address, folder)
        stop(app.state.service)
    for client, result in found.items():
        print(f"{client}: {result}")
    return int(any(result != "eins zwei drei" for result in found.values()))


if __name__ == "__main__":
    sys.exit(main())
