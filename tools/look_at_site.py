"""Looks at the built site in a real Chromium, as a reader does: `python tools/look_at_site.py build/docs`.

Every word of the glossary, typed into the search, must lead to its page first; at 1300 pixels no table may be cut, and
at 420 no page may scroll sideways. Without playwright or Chromium it says so and stops.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

from site_sources import words_of_pages  # noqa: E402

FIRST = "document.querySelector('#search-results ul.search li > a')?.getAttribute('href')"
CUT = """[...document.querySelectorAll('.table-wrapper')].filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.innerText.slice(0, 60))"""


def look(site: Path, tab: Any) -> list[str]:
    """What is wrong, a line each."""
    wrong = []
    for page, words in words_of_pages((ROOT / "docs" / "glossary.md").read_text(encoding="utf8")).items():
        for word in words:
            tab.goto(f"{(site / 'search.html').as_uri()}?q={quote_plus(word)}")
            tab.wait_for_function(f"{FIRST} !== undefined || /did not match/.test(document.body.innerText)")
            first = tab.evaluate(FIRST) or "nothing"
            if re.sub(r"\.html.*", "", first) != page:
                wrong.append(f"search for {word!r}: {first}, not {page}")
    for width, wide in ((1300, CUT), (420, "document.documentElement.scrollWidth > 420 ? ['the page'] : []")):
        tab.set_viewport_size({"width": width, "height": 900})
        for page in sorted(site.glob("**/*.html")):
            tab.goto(page.as_uri())
            tab.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true; })")
            wrong += [f"{page.name} at {width} pixels is cut: {one}" for one in tab.evaluate(wide)]
    return wrong


def main(site: Path) -> int:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        chromium = None
    if chromium is None:
        print("no playwright or no Chromium here: search and layout were not looked at")
        return 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        wrong = look(site.resolve(), browser.new_context(offline=True).new_page())
        browser.close()
    print("\n".join(wrong) or "every word of the glossary is found on its page first, and nothing is cut")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
