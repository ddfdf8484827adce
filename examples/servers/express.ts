// An Express server: chat with streaming, a stop button, human approval, and a graceful shutdown.
import { appendFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import express, { type Request, type Response } from "express";
import { openAgent } from "./agent";
import { Chat, drainOnSigterm, statusOf, type Request as ChatRequest, type Run } from "./chat";

const { DATABASE = "chat.db", PORT = "3000" } = process.env;
const chat = new Chat(openAgent(DATABASE, (letter) => appendFileSync(`${DATABASE}.letters`, `${letter}\n`)));
const app = express().use(express.json());

/** Sends a run's events as they arrive (server-sent events). A client that disconnects stops its run. */
async function stream(response: Response, threadId: string, request: ChatRequest): Promise<void> {
  let run: Run;
  try {
    run = await chat.begin(threadId, request);
  } catch (error) {
    response.status(statusOf(error)).json({ error: (error as Error).message });
    return;
  }
  response.on("close", run.stop);
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  for await (const { event, data } of run.events) response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  response.end();
}

type Call = Request<{ id: string }, unknown, { text?: string; answer?: string }>;
app.post("/threads/:id/messages", ({ params, body }: Call, response) =>
  stream(response, params.id, { kind: "message", text: body.text ?? "" }),
);
app.post("/threads/:id/answer", ({ params, body }: Call, response) =>
  stream(response, params.id, { kind: "answer", answer: body.answer ?? "" }),
);
app.post("/threads/:id/continue", ({ params }: Call, response) => stream(response, params.id, { kind: "continue" }));
app.post("/threads/:id/stop", ({ params }: Call, response) => void response.json({ stopped: chat.stop(params.id) }));
app.get("/threads/:id", async ({ params }, response) => void response.json(await chat.state(params.id)));

const server = app.listen(Number(PORT), () => console.log(`listening on ${(server.address() as AddressInfo).port}`));
drainOnSigterm(chat.agent, server);
