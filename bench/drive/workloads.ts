import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { pick, seeded, textOf } from "./words";

export type Values = Record<string, unknown>;

/** A state and what one step does to it: what the node returns, and the state after the reducers have taken it in. */
export interface Workload {
  start(): Values;
  step(values: Values, index: number): { update: Values; values: Values };
}

const MESSAGE_BYTES = 1_000;

/** A human and an AI message by turns, about 1 KB of text, with what model providers add. */
export function messageAt(random: () => number, index: number): BaseMessage {
  const id = `message-${index}-${Math.floor(random() * 1e9).toString(36)}`;
  const content = textOf(random, MESSAGE_BYTES);
  if (index % 2 === 0) return new HumanMessage({ id, content });
  const written = Math.ceil(content.length / 4);
  return new AIMessage({
    id,
    content,
    response_metadata: { model_name: "bench-1", finish_reason: "stop", system_fingerprint: `fp_${id}` },
    usage_metadata: { input_tokens: 100 * index, output_tokens: written, total_tokens: 100 * index + written },
  });
}

/** One message per step. */
export function conversation(seed: number): Workload {
  const random = seeded(seed);
  return {
    start: () => ({ messages: [] }),
    step: (values, index) => {
      const update = { messages: [messageAt(random, index)] };
      return { update, values: { messages: (values["messages"] as BaseMessage[]).concat(update.messages) } };
    },
  };
}

/** The files of an agent: 200 of 10 KB, one of them written per step. */
export function largeFiles(seed: number): Workload {
  const random = seeded(seed);
  const name = (index: number): string => `src/module-${index}.ts`;
  const files = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [name(i), textOf(random, 10_000)]));
  return {
    start: () => ({ files: files(200) }),
    step: (values) => {
      const update = { files: { [name(Math.floor(random() * 200))]: textOf(random, 10_000) } };
      return { update, values: { files: { ...(values["files"] as object), ...update.files } } };
    },
  };
}

/** 200 channels of 1 KB, three of them written per step. */
export function wideState(seed: number): Workload {
  const random = seeded(seed);
  const channels = Array.from({ length: 200 }, (_, index) => `channel_${index}`);
  return {
    start: () => Object.fromEntries(channels.map((channel) => [channel, textOf(random, 1_000)])),
    step: (values) => {
      const update: Values = {};
      for (let count = 0; count < 3; count += 1) update[pick(random, channels)] = textOf(random, 1_000);
      return { update, values: { ...values, ...update } };
    },
  };
}

/** A workflow that has finished 1,000 tasks and finishes one more with every step. */
export function finishedTasks(seed: number): Workload {
  const random = seeded(seed);
  const task = (index: number) => ({
    id: `task-${index}`,
    title: textOf(random, 40),
    status: "done",
    layer: Math.floor(index / 10),
    result: textOf(random, 120),
  });
  return {
    start: () => ({ position: 1_000, tasks: Array.from({ length: 1_000 }, (_, index) => task(index)) }),
    step: (values) => {
      const position = (values["position"] as number) + 1;
      const update = { position, tasks: [task(position)] };
      return { update, values: { position, tasks: (values["tasks"] as unknown[]).concat(update.tasks) } };
    },
  };
}
