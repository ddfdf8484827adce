// createReactAgent with a scripted chat model that calls real tools: it reads a file and adds up numbers. Each step is a turn.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import { tool } from "@langchain/core/tools";
import { FakeChatModel } from "@langchain/core/utils/testing";
import { createReactAgent } from "@langchain/langgraph/prebuilt";
import { GraphRunner, TurnSaver } from "langgraph-checkpoint-turns";
import { z } from "zod";

const folder = mkdtempSync(path.join(tmpdir(), "turns-react-"));
writeFileSync(path.join(folder, "invoice.txt"), "paper 12\nink 30\npost 8\n");

const readFile = tool(({ name }) => readFileSync(path.join(folder, path.basename(name)), "utf8"), {
  name: "read_file",
  description: "Reads a text file.",
  schema: z.object({ name: z.string() }),
});
const add = tool(({ numbers }) => String(numbers.reduce((sum, number) => sum + number, 0)), {
  name: "add",
  description: "Adds numbers.",
  schema: z.object({ numbers: z.array(z.number()) }),
});

/** Decides from the last message alone, as a model would: first read, then add what was read, then answer. */
class ScriptedModel extends FakeChatModel {
  override bindTools(): this {
    return this;
  }

  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const answer = next(messages);
    const words = (text: string): number => text.split(/\s+/).filter(Boolean).length;
    const input_tokens = words(messages.map((message) => message.text).join(" "));
    const output_tokens = Math.max(1, words(answer.text));
    answer.usage_metadata = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
    return { generations: [{ message: answer, text: answer.text }] };
  }
}

function next(messages: BaseMessage[]): AIMessage {
  const last = messages.at(-1)!;
  const call = (name: string, args: Record<string, unknown>): AIMessage =>
    new AIMessage({ content: "", tool_calls: [{ id: `call-${messages.length}`, name, args, type: "tool_call" }] });
  if (last.name === "read_file") return call("add", { numbers: last.text.match(/\d+/g)!.map(Number) });
  if (last.name === "add") return new AIMessage(`The invoice comes to ${last.text}.`);
  return call("read_file", { name: "invoice.txt" });
}

try {
  const saver = TurnSaver.fromPath(path.join(folder, "agent.db"));
  const runner = new GraphRunner(createReactAgent({ llm: new ScriptedModel({}), tools: [readFile, add], checkpointer: saver }));
  const messages = [{ role: "user", content: "What does invoice.txt come to?" }];
  const result = await runner.invoke({ messages }, { threadId: "invoice", taskId: "add-up" });

  const turns = await saver.turns.list("invoice");
  for (const { seq, turnType, nodeName, tokens } of turns.filter((turn) => turn.turnType === "Action"))
    console.log(`${String(seq).padStart(3)}  ${turnType}  ${nodeName.padEnd(6)} ${tokens.input} tokens in, ${tokens.output} out`);
  console.log(result.messages.at(-1)?.text);
  saver.close();

  assert.equal(result.messages.at(-1)?.text, "The invoice comes to 50.");
  const actions = turns.filter((turn) => turn.turnType === "Action");
  assert.deepEqual(
    actions.map((turn) => turn.nodeName),
    ["agent", "tools", "agent", "tools", "agent"],
  );
  assert.ok(actions.every((turn) => turn.durable && (turn.nodeName === "tools" || turn.tokens.input > 0)));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
