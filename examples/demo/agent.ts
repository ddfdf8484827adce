import { setTimeout as sleep } from "node:timers/promises";
import { AIMessage, type BaseMessage } from "@langchain/core/messages";
import type { ChatResult } from "@langchain/core/outputs";
import type { RunnableConfig } from "@langchain/core/runnables";
import { FakeChatModel } from "@langchain/core/utils/testing";
import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import type { World } from "./world";

/** The thread on which all complaints are handled, one task each. */
export const THREAD = "complaints";
export const TASKS = ["1-brandt", "2-olsen", "3-ito"] as const;
export type TaskId = (typeof TASKS)[number];

const COMPLAINTS: Record<TaskId, string> = {
  "1-brandt": "The lamp arrived broken. I paid 40 euros for it.",
  "2-olsen": "My order of 25 euros never arrived.",
  "3-ito": "You charged me 60 euros twice.",
};

const State = Annotation.Root({
  task: Annotation<TaskId>,
  letter: Annotation<string>,
  refund: Annotation<number>,
  /** One line per node, for people. */
  notes: Annotation<string[]>({ reducer: (old, added) => old.concat(added), default: () => [] }),
});

export interface Agent {
  checkpointer: BaseCheckpointSaver;
  /** Where each node body writes a line when it starts. */
  bodies: World;
  post: (letter: { to: TaskId; text: string }) => Promise<string>;
  pay: (refund: { to: TaskId; euros: number }) => Promise<string>;
}

/** The agent: read → (post ∥ pay) → close, once per complaint. It is the same for both savers, except for `post` and `pay`. */
export function createAgent({ checkpointer, bodies, post, pay }: Agent) {
  const model = new LetterWriter({});
  const begins = (node: string, task: TaskId): void => bodies.record("began", "", `${task} ${node}`);

  return new StateGraph(State)
    .addNode("read", async ({ task }, config: RunnableConfig) => {
      begins("read", task);
      const answer = await model.invoke(COMPLAINTS[task], config);
      const euros = Number(/\d+/.exec(COMPLAINTS[task])?.[0]);
      return {
        letter: answer.text,
        refund: euros,
        notes: [`a letter of ${answer.text.split(" ").length} words, ${euros} euros due`],
      };
    })
    .addNode("post", async ({ task, letter }) => {
      begins("post", task);
      await sleep(60);
      return { notes: [await post({ to: task, text: letter })] };
    })
    .addNode("pay", async ({ task, refund }) => {
      begins("pay", task);
      return { notes: [await pay({ to: task, euros: refund })] };
    })
    .addNode("close", ({ task }) => {
      begins("close", task);
      return { notes: [`complaint ${task} is closed`] };
    })
    .addEdge(START, "read")
    .addEdge("read", "post")
    .addEdge("read", "pay")
    .addEdge(["post", "pay"], "close")
    .addEdge("close", END)
    .compile({ checkpointer });
}

/** Stands in for a chat model: no network, always the same answer. It reports its tokens (here, words) as models do. */
class LetterWriter extends FakeChatModel {
  override async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const text = "We are sorry. You get your money back, and we have asked the warehouse to take more care.";
    const count = (words: string): number => words.split(/\s+/).length;
    const [input_tokens, output_tokens] = [count(messages.map((message) => message.text).join(" ")), count(text)];
    const usage_metadata = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
    return { generations: [{ message: new AIMessage({ content: text, usage_metadata }), text }] };
  }
}
