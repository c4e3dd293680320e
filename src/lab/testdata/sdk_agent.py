"""The smallest agent on the plain Python SDKs: two tools, a loop, the SDK's timeouts and retries.

    sdk_agent.py anthropic|openai|openai-responses [--stream] TASK

Base URL and key come from the environment, as the SDKs read them (ANTHROPIC_BASE_URL,
OPENAI_BASE_URL). Ends with 0 once the model makes no more calls.
"""
import json
import os
import pathlib
import sys

TOOLS = {
    "read_file": ("Reads a file.", ["path"]),
    "edit_file": ("Replaces a text in a file.", ["path", "old_text", "new_text"]),
}
SYSTEM = f"You edit files. Working directory: {os.getcwd()}"


def schema(names):
    return {"type": "object", "required": names,
            "properties": {name: {"type": "string"} for name in names}}


def run_tool(name, arguments):
    path = pathlib.Path(arguments["path"])
    text = path.read_text(encoding="utf-8")
    if name == "read_file":
        return text
    path.write_text(text.replace(arguments["old_text"], arguments["new_text"], 1), encoding="utf-8")
    return "edited"


def with_anthropic(task, stream):
    import anthropic
    client = anthropic.Anthropic()
    tools = [{"name": name, "description": about, "input_schema": schema(names)}
             for name, (about, names) in TOOLS.items()]
    messages = [{"role": "user", "content": task}]
    while True:
        ask = {"model": "claude-opus-5-5", "max_tokens": 4096, "system": SYSTEM, "tools": tools,
               "messages": messages}
        if stream:
            with client.messages.stream(**ask) as events:
                answer = events.get_final_message()
        else:
            answer = client.messages.create(**ask)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[0].text
        messages.append({"role": "assistant", "content": [
            block.model_dump(include={"type", "text", "id", "name", "input"})
            for block in answer.content]})
        messages.append({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id,
             "content": run_tool(call.name, call.input)}
            for call in calls]})


def with_openai(task, stream):
    import openai
    client = openai.OpenAI()
    tools = [{"type": "function", "function": {"name": name, "description": about,
                                               "parameters": schema(names)}}
             for name, (about, names) in TOOLS.items()]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    while True:
        ask = {"model": "gpt-6", "tools": tools, "messages": messages}
        if stream:
            text, calls = "", {}
            for chunk in client.chat.completions.create(
                    stream=True, stream_options={"include_usage": True}, **ask):
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    for part in choice.delta.tool_calls or []:
                        call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                        call["id"] += part.id or ""
                        call["name"] += part.function.name or ""
                        call["arguments"] += part.function.arguments or ""
            calls = list(calls.values())
        else:
            message = client.chat.completions.create(**ask).choices[0].message
            text = message.content or ""
            calls = [{"id": call.id, "name": call.function.name,
                      "arguments": call.function.arguments}
                     for call in message.tool_calls or []]
        if not calls:
            return text
        messages.append({"role": "assistant", "content": text, "tool_calls": [
            {"id": call["id"], "type": "function",
             "function": {"name": call["name"], "arguments": call["arguments"]}}
            for call in calls]})
        for call in calls:
            messages.append({"role": "tool", "tool_call_id": call["id"],
                             "content": run_tool(call["name"], json.loads(call["arguments"]))})


def with_responses(task, stream):
    import openai
    client = openai.OpenAI()
    tools = [{"type": "function", "name": name, "description": about, "parameters": schema(names)}
             for name, (about, names) in TOOLS.items()]
    items = [{"role": "user", "content": task}]
    while True:
        ask = {"model": "gpt-6", "instructions": SYSTEM, "tools": tools, "input": items,
               "store": False}
        if stream:
            with client.responses.stream(**ask) as events:
                answer = events.get_final_response()
        else:
            answer = client.responses.create(**ask)
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        for call in calls:
            items.append({"type": "function_call", "call_id": call.call_id, "name": call.name,
                          "arguments": call.arguments})
            items.append({"type": "function_call_output", "call_id": call.call_id,
                          "output": run_tool(call.name, json.loads(call.arguments))})


def main():
    words = [word for word in sys.argv[1:] if word != "--stream"]
    kinds = {"anthropic": with_anthropic, "openai": with_openai, "openai-responses": with_responses}
    print(kinds[words[0]](words[1], "--stream" in sys.argv))


if __name__ == "__main__":
    main()
