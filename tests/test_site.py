"""Pages of the documentation that are made from the code."""

import inspect
import re

import pytest
import yaml
from entry_points import ROOT, done, flat, script

from informer.checkpoint import attention_names, attention_node

pytest.importorskip("mkdocs")
from markdown import markdown
from material.plugins.offline import plugin
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File
from mkdocs.structure.pages import Page

site_pages = script("site_pages")


def test_every_key_is_in_the_reference() -> None:
    """Red if a key of the command line has no row, or a row names a key that is refused."""
    rows = set(re.findall(r"^\| `([\w.]+)` \|", site_pages.configuration_page(), re.M))
    given = flat(yaml.safe_load(done("train", "--cfg", "job").out))
    keys = {key for key in given if key.partition(".")[0] not in ("attn", "cross_attn", "decoder_attn", "experiment")}
    assert keys - rows == set()
    assert {key for key in rows if not key.startswith("model.")} - keys <= {"attn", "cross_attn", "decoder_attn"}


def test_every_mechanism_is_in_the_gallery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Red if a mechanism lacks its section, or a sentence stays of one that is gone; one's own is described by its
    class."""
    page = site_pages.gallery_page()
    assert re.findall(r"^## (\w+)$", page, re.M) == attention_names()
    assert set(site_pages.USES) <= set(attention_names())
    monkeypatch.delitem(site_pages.USES, "full")
    assert "## full\n\nEvery query attends to every allowed key.\n" in site_pages.gallery_page()


def test_mechanisms_are_counted() -> None:
    """Red if one is added and a document has the old number: names, classes, and the one that dispatches."""
    classes = {attention_node(name)["_target_"] for name in attention_names()}
    counted = f"{len(attention_names())} attention mechanisms ({len(classes)} classes; auto chooses between two)"
    places = "README.md", "CITATION.cff", "pyproject.toml", "docs/index.md", "docs/attention.md", "informer/__init__.py"
    texts = {place: (ROOT / place).read_text(encoding="utf-8").replace("`", "") for place in places}
    assert [place for place, text in texts.items() if counted not in " ".join(text.split())] == []


def test_links_that_leave_the_site_are_text() -> None:
    kept = "[plot](a.png) [table](../results/M/table.md) [site](https://arxiv.org)"
    assert site_pages.on_page_markdown(f"{kept} [`a.py`](../informer/a.py)") == f"{kept} `a.py`"


def test_formulas_are_drawn_without_a_script() -> None:
    """Red if a formula stays as text that only a script would draw, or text that is none is changed."""
    page = markdown(
        "A $k_j$ for $5 and `$x$`.\n\n$$\\frac{1}{s} < 2$$",
        extensions=["pymdownx.arithmatex"],
        extension_configs={"pymdownx.arithmatex": {"generic": True}},
    )
    drawn = site_pages.on_page_content(page)
    assert "arithmatex" in page
    assert "arithmatex" not in drawn
    assert re.findall(r'display="(\w+)"', drawn) == ["inline", "block"]
    assert "<mfrac>" in drawn
    assert "&lt;" in drawn or "&#x0003C;" in drawn
    assert "<code>$x$</code>" in drawn


def test_pages_open_from_disk() -> None:
    """Red if links lead to folders, of which a browser shows a listing where no server adds index.html."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.search(r"^use_directory_urls: false\b", settings, re.M)
    assert re.search(r"^  - offline\b", settings, re.M)


def test_search_works_from_disk() -> None:
    """Red if the theme asks for its script at another address, which would stay in the pages."""
    page = Page(None, File("tutorials/a.md", "docs", "site", use_directory_urls=False), MkDocsConfig())
    address = re.findall(r'"(https://[^"]+)"', inspect.getsource(plugin))
    assert site_pages.on_post_page(f'src="{address[0]}"', page) == 'src="../assets/iframe-worker.js"'
    assert (ROOT / "docs/assets/iframe-worker.js").is_file()


def test_every_link_leads_to_a_file() -> None:
    """Red when a document is moved and a page still names its old place."""
    wrong = []
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        # the front page of the site leads to pages made by its build, which checks them
        *(page for page in (ROOT / "docs").glob("*.md") if page.name != "index.md"),
        *(ROOT / "data").glob("*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            # the build of the site makes the gallery
            if "://" not in target and target != "gallery.md" and not (page.parent / target).exists():
                wrong.append(f"{page.name}: {target}")
    assert wrong == []


def test_lines_of_the_walk_through_the_paper() -> None:
    """Red when code moves: the message has the lines where it is now. Red, too, when the four files grow again."""
    text, wrong = (ROOT / "docs/reading.md").read_text(encoding="utf-8"), []
    links = re.findall(r"\[`([^`]+)`\]\(\.\./([^)#]+)#L(\d+)\)", text)
    for code, path, line in links:
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        if code not in lines[int(line) - 1]:
            wrong.append(f"{path}#L{line}: {code} is in {[n for n, one in enumerate(lines, 1) if code in one]}")
    assert wrong == []
    networks = ROOT / "informer/networks"
    read = [
        networks / name
        for name in ("attention/prob.py", "layers/encoder.py", "layers/decoder.py", "models/informer.py")
    ]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in read) <= 700
    assert {str(path.relative_to(ROOT)) for path in read} <= {path for _, path, _ in links}


def test_the_readme_is_short() -> None:
    """Red if it grows beyond what is read in one go."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90
