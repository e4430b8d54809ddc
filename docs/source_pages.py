"""For mkdocs: source files that pages link to become pages of the site.

A link such as ../../examples/03_your_own_drafter.cpp works where the repository is shown. The site has docs/ alone, so each
file that is linked to gets a page with its text, and the link goes there.
"""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(((?:\.\./)+(?:examples|include|tests|bench|cmake)/[\w./-]+)\)")
LANGUAGES = {".cpp": "cpp", ".hpp": "cpp", ".cu": "cpp", ".cuh": "cpp", ".py": "python", ".sh": "sh"}


def source_of(page, link):
    """The linked file, relative to the repository."""
    return posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))


def page_of(source):
    return f"source/{source}.md"


def on_files(files, config):
    pages = [(page.src_uri, page.content_string) for page in files.documentation_pages()]
    sources = {source_of(page, link) for page, text in pages for link in LINK.findall(text)}
    for source in sorted(sources):
        file = ROOT / source
        language = LANGUAGES.get(file.suffix, "")
        text = f"# {source}\n\n~~~~{language}\n{file.read_text()}~~~~\n"
        files.append(File.generated(config, page_of(source), content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    if here.startswith("source/"):
        return markdown

    def to_page(match):
        return f"]({posixpath.relpath(page_of(source_of(here, match[1])), posixpath.dirname(here) or '.')})"

    return LINK.sub(to_page, markdown)
