// The smallest agent on the plain Node SDKs: two tools, a loop, the SDK's own timeouts and retries.
//
//   node sdk_agent.mjs anthropic|openai|openai-responses|ai-anthropic|ai-openai [--stream] TASK
//
// Base URL and key come from the environment, as the SDKs read them. SDK_ROOT: the folder whose
// node_modules has the SDKs (default: the current one). Ends with 0 once the model makes no more
// calls.
import fs from 'node:fs';
import path from 'node:path';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const need = createRequire(path.resolve(process.env.SDK_ROOT ?? '.', 'package.json'));
const SYSTEM = `You edit files. Working directory: ${process.cwd()}`;
const TOOLS = {
  read_file: ['Reads a file.', ['path']],
  edit_file: ['Replaces a text in a file.', ['path', 'old_text', 'new_text']],
};

function schema(names) {
  const properties = Object.fromEntries(names.map((name) => [name, {type: 'string'}]));
  return {type: 'object', required: names, properties};
}

function tools(shape) {
  return Object.entries(TOOLS).map(([name, [about, names]]) => shape(name, about, schema(names)));
}

function runTool(name, input) {
  const text = fs.readFileSync(input.path, 'utf8');
  if (name === 'read_file') return text;
  fs.writeFileSync(input.path, text.replace(input.old_text, () => input.new_text));
  return 'edited';
}

async function withAnthropic(task, stream) {
  const Anthropic = need('@anthropic-ai/sdk');
  const client = new (Anthropic.default ?? Anthropic)();
  const messages = [{role: 'user', content: task}];
  for (;;) {
    const ask = {
      model: 'claude-opus-5-5', max_tokens: 4096, system: SYSTEM, messages,
      tools: tools((name, description, input_schema) => ({name, description, input_schema})),
    };
    const answer = stream ? await client.messages.stream(ask).finalMessage()
                          : await client.messages.create(ask);
    const calls = answer.content.filter((block) => block.type === 'tool_use');
    if (calls.length === 0) return answer.content[0].text;
    messages.push({role: 'assistant', content: answer.content});
    messages.push({role: 'user', content: calls.map((call) => ({
      type: 'tool_result', tool_use_id: call.id, content: runTool(call.name, call.input),
    }))});
  }
}

async function withOpenai(task, stream) {
  const OpenAI = need('openai');
  const client = new (OpenAI.default ?? OpenAI)();
  const messages = [{role: 'system', content: SYSTEM}, {role: 'user', content: task}];
  for (;;) {
    const ask = {
      model: 'gpt-6', messages,
      tools: tools((name, description, parameters) =>
        ({type: 'function', function: {name, description, parameters}})),
    };
    const answer = stream ? await client.chat.completions.stream(ask).finalChatCompletion()
                          : await client.chat.completions.create(ask);
    const message = answer.choices[0].message;
    const calls = message.tool_calls ?? [];
    if (calls.length === 0) return message.content;
    messages.push({role: 'assistant', content: message.content, tool_calls: calls.map(
      (call) => ({id: call.id, type: 'function',
                  function: {name: call.function.name, arguments: call.function.arguments}}))});
    for (const call of calls) {
      messages.push({role: 'tool', tool_call_id: call.id,
                     content: runTool(call.function.name, JSON.parse(call.function.arguments))});
    }
  }
}

async function withResponses(task, stream) {
  const OpenAI = need('openai');
  const client = new (OpenAI.default ?? OpenAI)();
  const input = [{role: 'user', content: task}];
  for (;;) {
    const ask = {
      model: 'gpt-6', instructions: SYSTEM, input, store: false,
      tools: tools((name, description, parameters) =>
        ({type: 'function', name, description, parameters, strict: false})),
    };
    const answer = stream ? await client.responses.stream(ask).finalResponse()
                          : await client.responses.create(ask);
    const calls = answer.output.filter((item) => item.type === 'function_call');
    if (calls.length === 0) return answer.output_text;
    for (const call of calls) {
      input.push({type: 'function_call', call_id: call.call_id, name: call.name,
                  arguments: call.arguments});
      input.push({type: 'function_call_output', call_id: call.call_id,
                  output: runTool(call.name, JSON.parse(call.arguments))});
    }
  }
}

// Vercel's SDK has the loop itself, and stands before the others.
async function withAi(model, task, stream) {
  const ai = await import(pathToFileURL(need.resolve('ai')));
  const ask = {
    model, instructions: SYSTEM, prompt: task, stopWhen: ai.stepCountIs(9),
    tools: Object.fromEntries(Object.entries(TOOLS).map(([name, [description, names]]) => [
      name, ai.tool({description, inputSchema: ai.jsonSchema(schema(names)),
                     execute: (input) => runTool(name, input)})])),
  };
  if (!stream) return (await ai.generateText(ask)).text;
  let failure;
  const result = ai.streamText({...ask, onError: ({error}) => { failure = error; }});
  await result.consumeStream();
  if (failure) throw failure;
  return result.text;
}

async function withAiAnthropic(task, stream) {
  const {anthropic} = await import(pathToFileURL(need.resolve('@ai-sdk/anthropic')));
  return withAi(anthropic('claude-opus-5-5'), task, stream);
}

async function withAiOpenai(task, stream) {
  const {openai} = await import(pathToFileURL(need.resolve('@ai-sdk/openai')));
  return withAi(openai('gpt-6'), task, stream);
}

const words = process.argv.slice(2).filter((word) => word !== '--stream');
const kinds = {
  anthropic: withAnthropic, openai: withOpenai, 'openai-responses': withResponses,
  'ai-anthropic': withAiAnthropic, 'ai-openai': withAiOpenai,
};
console.log(await kinds[words[0]](words[1], process.argv.includes('--stream')));
