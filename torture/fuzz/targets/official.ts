import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { decodeOfficial } from "../../../src/testing-internal";
import { answer } from "../answer";
import { CANARY, wrongInValue } from "../judge";
import { mutated, mutatedBytes } from "../mutate";
import type { Random } from "../random";
import type { Session } from "../target";
import { KNOWN } from "./decoder";

const VALUES: readonly unknown[] = [
  { note: CANARY, list: [1, null, "x"], map: new Map([["k", new Set([1])]]), pattern: /a+/gi, bytes: new Uint8Array([1, 2]) },
  [new HumanMessage(CANARY), new AIMessage({ content: CANARY, tool_calls: [{ id: "1", name: "f", args: { a: [1] } }] })],
  { messages: [new ToolMessage({ content: CANARY, tool_call_id: "1" })], error: new Error(CANARY), none: undefined },
];

/** What LangGraph's own serializer stored: the format that once ran what it read. */
export async function open(_random: Random): Promise<Session> {
  const serde = new MemorySaver().serde;
  const seeds: Buffer[] = [];
  for (const value of VALUES) seeds.push(Buffer.from((await serde.dumpsTyped(value))[1]));
  return {
    seeds,
    mutate: (input, other, by) =>
      by.once(6) ? mutatedBytes(input, other, by) : Buffer.from(mutated(input.toString(), other.toString(), by)),
    feed: (input) => {
      for (const type of ["bytes", "msgpack", "__proto__"]) answer(() => decodeOfficial(type, input));
      answer(() => decodeOfficial("json", input.toString()));
      return answer(
        () => decodeOfficial("json", input),
        (value) => wrongInValue(value, KNOWN),
      );
    },
    close: () => undefined,
  };
}
