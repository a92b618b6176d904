"""Conversations that templates are tried on: of two with short texts to long ones with tools and thoughts, in several
scripts, and with what may go wrong."""
import random

TEXTS = ["Hello!", "What is 2 + 2?", "  spaces around  \n", "Zeile eins\nZeile zwei\n\n", "世界，你好！", "naïve café — “quoted”",
         "🙂👩‍🚀 emoji", "<|im_start|>user\nnot a turn<|im_end|>", "{{ not }} {% a %} {# template #}", "\\n 'single' \"double\"",
         "", "\n", "<think>\nsome thoughts\n</think>\n\nThe answer is 4.", "<think></think>ok", "no</think>yes", "a & b < c > d",
         "x" * 60, "[INST] [/INST]", "tab\tand\r\nbreak", "ΑΣ ΟΔΟΣ ß ﬁ", "true", "0", "json: {\"a\": [1, 2]}", "[Reasoning: high] hi"]

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a place.\nNow.", "parameters": {
        "type": "object", "properties": {
            "city": {"type": "string", "description": "The city, e.g. \"Zürich\" & <others>"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14.5},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                      "required": ["lat"], "additionalProperties": False}},
        "required": ["city"]}, "return": {"type": "string", "description": "text"}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Sucht. 検索", "parameters": {
        "type": "object", "properties": {
            "queries": {"type": "array", "items": {"type": "string"}, "description": "what to look for"},
            "filters": {"anyOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}}, {"type": "null"}]},
            "limit": {"type": "integer", "default": 10}}, "required": ["queries", "limit"]}}}
NOTHING = {"type": "function", "function": {"name": "noop", "description": "Does nothing",
                                            "parameters": {"type": "object", "properties": {}}}}
TOOLS = [WEATHER, SEARCH, NOTHING]
ARGUMENTS = [{"city": "Paris", "unit": "celsius"}, {"city": "東京", "days": 3}, {}, {"queries": ["a", "b\"c"], "limit": 5, "deep": {"x": [1.5, None, True]}},
             {"code": "for i in range(3):\n    print(f'{i}')", "n": -1.25e-7}]


def tool_calls(rng, with_ids):
    calls = []
    for _ in range(rng.choice([1, 1, 2])):
        call = {"type": "function", "function": {"name": rng.choice(["get_weather", "search", "noop"]),
                                                 "arguments": rng.choice(ARGUMENTS)}}
        if with_ids:
            call["id"] = "".join(rng.choice("abcdefgh0123456789") for _ in range(9))
        if rng.random() < 0.15:
            call["function"]["arguments"] = "{\"city\": \"as text\"}"
        calls.append(call)
    return calls


def content(rng, may_be_parts):
    text = rng.choice(TEXTS)
    if may_be_parts and rng.random() < 0.5:
        return [{"type": "text", "text": text}] + ([{"type": "text", "text": rng.choice(TEXTS)}] if rng.random() < 0.3 else [])
    return text


def assistant(rng, style):
    message = {"role": "assistant", "content": content(rng, style["parts"])}
    if style["thinks"] and rng.random() < 0.7:
        message[rng.choice(["reasoning_content", "thinking", "reasoning"])] = rng.choice(TEXTS)
    return message


def conversation(rng):
    """A conversation, and what else it is rendered with."""
    style = {"parts": rng.random() < 0.15, "thinks": rng.random() < 0.3, "tools": rng.random() < 0.45}
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system"] * 9 + ["developer"]), "content": content(rng, style["parts"])})
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        messages.append({"role": "user", "content": content(rng, style["parts"])})
        while style["tools"] and rng.random() < 0.5:
            message = assistant(rng, style)
            message["tool_calls"] = tool_calls(rng, rng.random() < 0.8)
            message["content"] = rng.choice(["", None, message["content"]])
            if rng.random() < 0.2:
                del message["content"]
            messages.append(message)
            for call in message["tool_calls"]:
                result = {"role": "tool", "content": rng.choice(["22", "{\"ok\": true}", rng.choice(TEXTS)]),
                          "name": call["function"]["name"]}
                if "id" in call:
                    result["tool_call_id"] = call["id"]
                messages.append(result)
        messages.append(assistant(rng, style))
    if rng.random() < 0.4:
        messages.pop()
    if rng.random() < 0.04:  # what templates refuse, perhaps
        messages.insert(rng.randrange(len(messages) + 1), rng.choice([
            {"role": "user", "content": "twice"}, {"role": "assistant"}, {"role": "robot", "content": "?"}, {"content": "no role"},
            {"role": "user", "content": None}, {"role": "user", "content": 5}, {"role": "system", "content": "late"}]))
    case = {"messages": messages or [{"role": "user", "content": "Hi"}]}
    if style["tools"] and rng.random() < 0.85:
        case["tools"] = rng.sample(TOOLS, rng.randint(1, 3))
    if rng.random() < 0.3:
        case["add_generation_prompt"] = True
    variables = {}
    if rng.random() < 0.3:
        variables["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.1:
        variables["reasoning_effort"] = rng.choice(["low", "medium", "high", "none", "max"])
    if rng.random() < 0.1:
        variables["documents"] = [{"title": "A", "text": "one"}, {"title": "B", "text": "two\nlines"}]
    if rng.random() < 0.05:
        variables["thinking"] = True
    if rng.random() < 0.05:
        variables["date_string"] = "26 Jul 2024"
    if variables:
        case["variables"] = variables
    return case
