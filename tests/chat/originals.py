"""What the PyPI package transformers makes of a case: the original that renderings are compared with."""
import copy
import re
import sys

from transformers.utils import chat_template_utils

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def byte_spans(text, spans):
    offsets = [0]
    for character in text:
        offsets.append(offsets[-1] + len(character.encode()))
    return [[offsets[begin], offsets[end]] for begin, end in spans]


def render(template, case):
    """{"text", "spans"} as apply_chat_template gives them, or {"error"}."""
    case = copy.deepcopy(case)
    try:
        messages = chat_template_utils._normalize_chat_messages(case["messages"])  # pylint: disable=protected-access
        texts, spans = chat_template_utils.render_jinja_template(
            [messages], tools=case.get("tools"), chat_template=template, return_assistant_tokens_mask=True,
            add_generation_prompt=case.get("add_generation_prompt", False),
            **{"documents": None, **case.get("special_tokens", SPECIAL_TOKENS), **case.get("variables", {})})
        return {"text": texts[0], "spans": byte_spans(texts[0], spans[0])}
    except Exception as error:  # pylint: disable=broad-exception-caught  # whatever it raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}


def span_by_prefixes(template, case, index, text):
    """What the messages to this one have more than the prompt for it; None where the template's text of a prefix changes."""
    before = render(template, {**case, "messages": case["messages"][:index], "add_generation_prompt": True})
    with_it = render(template, {**case, "messages": case["messages"][:index + 1]})
    if "error" in before or "error" in with_it:
        return None
    before, with_it = before["text"].encode(), with_it["text"].encode()
    return [len(before), len(with_it)] if with_it.startswith(before) and text.startswith(with_it) else None


def trained(template, case):
    """What is trained of a conversation: a span for each message of the assistant, None where prefixes do not tell it."""
    whole = render(template, case)
    if "error" in whole or re.search(r"\{%[-+]?\s*generation\b", template):
        return whole
    text = whole["text"].encode()
    return {"text": whole["text"], "spans": [span_by_prefixes(template, case, index, text)
                                             for index, message in enumerate(case["messages"]) if message.get("role") == "assistant"]}


if __name__ == "__main__":
    sys.exit("a module of make_goldens.py and compare_templates.py")
