#!/bin/bash
# Copies mkdocs.yml and the pages of docs to the folder $1 as their site needs them. They are written for GitHub:
# links that leave docs lead to the repository, and the word behind the language of a block, which says why no
# test runs it, goes.
set -euo pipefail
main=$(sed -n 's/^repo_url: //p' mkdocs.yml)/blob/main/
mkdir -p "$1"
rm -rf "$1/docs"
cp -r docs mkdocs.yml "$1"
sed -Ei 's/^```sh [a-z]+$/```sh/' "$1"/docs/*.md "$1"/docs/*/*.md
sed -Ei "s#\]\(\.\./#]($main#g" "$1"/docs/*.md
sed -Ei "s#\]\(\.\./\.\./#]($main#g" "$1"/docs/*/*.md
