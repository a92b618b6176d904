"""A hook of MkDocs: links from pages to files outside docs/ become the names of these files, since a site has only docs/."""
import os
import re

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown, page, **_):
    def changed(link):
        text, target = link.group(1), link.group(2)
        path = os.path.normpath(os.path.join("docs", os.path.dirname(page.file.src_uri), target))
        if path.startswith("docs/"):
            return link.group()
        return text if text.strip("`") == path else f"{text} (`{path}`)"

    blocks = re.split(r"(^\s*(?:```|~~~).*?^\s*(?:```|~~~)\s*$)", markdown, flags=re.M | re.S)
    return "".join(block if index % 2 else LINK.sub(changed, block) for index, block in enumerate(blocks))
