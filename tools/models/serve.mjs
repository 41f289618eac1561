// A small language model behind OpenAI's chat completions, for `cargo xtask models`: node-llama-cpp on a GGUF file.
//
//   node serve.mjs PATH-TO-GGUF [THREADS]
//
// Listens on a free port of 127.0.0.1 and says where on its first line. It knows `messages` (texts), `max_tokens`,
// `temperature`, `stop`, `stream` and `stream_options`, and ends a generation whose client has gone.

import { createServer } from "node:http";
import { getLlama, LlamaChatSession } from "node-llama-cpp";

const [, , path, threads = "2"] = process.argv;

const llama = await getLlama({ gpu: false, build: "never", progressLogs: false, logLevel: "error", maxThreads: Number(threads) });
const model = await llama.loadModel({ modelPath: path });
const context = await model.createContext({ contextSize: 2048, threads: Number(threads), sequences: 1 });
const name = "SmolLM2-135M-Instruct";

/** One generation at a time: there is one sequence. */
let turn = Promise.resolve();

function history(messages) {
  const items = [];
  for (const { role, content } of messages) {
    if (role === "system") items.push({ type: "system", text: content });
    else if (role === "user") items.push({ type: "user", text: content });
    else if (role === "assistant") items.push({ type: "model", response: [content ?? ""] });
    else throw new Error(`no message of the role ${role}`);
  }
  return items;
}

async function generate(body, signal, onText) {
  const messages = [...body.messages];
  const last = messages.pop();
  if (last?.role !== "user" || typeof last.content !== "string") throw new Error("the last message is no text of the user");
  const sequence = context.getSequence();
  const session = new LlamaChatSession({ contextSequence: sequence, systemPrompt: "" });
  try {
    session.setChatHistory(history(messages));
    const before = sequence.tokenMeter.getState();
    const { stopReason } = await session.promptWithMeta(last.content, {
      maxTokens: body.max_tokens,
      temperature: body.temperature ?? 0,
      customStopTriggers: body.stop,
      onTextChunk: onText,
      signal,
      stopOnAbortSignal: true,
    });
    const used = sequence.tokenMeter.diff(before);
    const reason = stopReason === "maxTokens" ? "length" : "stop";
    const usage = {
      prompt_tokens: used.usedInputTokens,
      completion_tokens: used.usedOutputTokens,
      total_tokens: used.usedInputTokens + used.usedOutputTokens,
    };
    return { reason, usage };
  } finally {
    session.dispose();
    sequence.dispose();
  }
}

async function answer(request, response, body) {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  const id = `chatcmpl-${Date.now()}`;
  const base = { id, created: Math.floor(Date.now() / 1000), model: name };
  if (!body.stream) {
    let text = "";
    const { reason, usage } = await generate(body, gone.signal, (more) => (text += more));
    const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: reason }];
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ ...base, object: "chat.completion", choices, usage }));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data) => response.write(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
  const chunk = (choices, rest = {}) => send({ ...base, object: "chat.completion.chunk", choices, ...rest });
  chunk([{ index: 0, delta: { role: "assistant" }, finish_reason: null }]);
  const { reason, usage } = await generate(body, gone.signal, (content) =>
    chunk([{ index: 0, delta: { content }, finish_reason: null }]),
  );
  if (gone.signal.aborted) console.log("gone");
  chunk([{ index: 0, delta: {}, finish_reason: reason }]);
  if (body.stream_options?.include_usage) chunk([], { usage });
  send("[DONE]");
  response.end();
}

/** How many tokens a text is: what estimates are held against. */
function count(body) {
  return { tokens: model.tokenize(String(body.text)).length };
}

const server = createServer((request, response) => {
  let text = "";
  request.on("data", (more) => (text += more));
  request.on("end", () => {
    const fail = (status, error) => {
      if (!response.headersSent) response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: String(error?.message ?? error), type: "invalid_request_error" } }));
    };
    let body;
    try {
      body = JSON.parse(text);
    } catch (error) {
      return fail(400, error);
    }
    if (request.url === "/count") {
      response.writeHead(200, { "content-type": "application/json" });
      return response.end(JSON.stringify(count(body)));
    }
    if (request.url !== "/v1/chat/completions") return fail(404, "there is only /v1/chat/completions");
    turn = turn.then(() => answer(request, response, body)).catch((error) => fail(400, error));
  });
});
server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/v1`));
