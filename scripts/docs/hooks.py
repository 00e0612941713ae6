"""Hooks of mkdocs.yml: the pages are written for GitHub, and read there and on the site."""

import posixpath
import re

# A word behind the language of a block says why no test runs it; mkdocs knows one word only.
FENCE = re.compile(r"^```sh \w+$", re.MULTILINE)
LINK = re.compile(r"\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown, page, config, files):
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def absolute(match):
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if target.startswith("docs/"):
            return match[0]
        return f"]({config.repo_url}/blob/main/{target})"

    return LINK.sub(absolute, FENCE.sub("```sh", markdown))
