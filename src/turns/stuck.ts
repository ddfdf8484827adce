import type { RecoveryRow } from "../store/store";

/** A thread that recovery couldn't bring to its end. */
export interface StuckThread {
  threadId: string;
  taskId: string | undefined;
  /** How many tries brought it no further. */
  tries: number;
  /** The node that failed last, or that was running when the process died. */
  nodeName: string | undefined;
  /** `message` is undefined where a turn's error isn't kept either: with the options `redact`, `serde` and `turns`. */
  error: { name: string; code: string | undefined; message: string | undefined };
  /** When the last try failed. */
  at: Date;
}

/** What is recorded of a try that failed. */
export type Failure = Pick<StuckThread, "taskId" | "nodeName" | "error">;

const MESSAGE_MAX = 2_000;

/** @param keepsMessage whether the error's text may be recorded */
export function failureText({ taskId, nodeName, error }: Failure, keepsMessage: boolean): string {
  const message = keepsMessage ? error.message?.slice(0, MESSAGE_MAX) : undefined;
  return JSON.stringify({ taskId, nodeName, error: { ...error, message } });
}

export function failureOf(recorded: string): Failure {
  const { taskId, nodeName, error } = JSON.parse(recorded) as Partial<Failure>;
  const died = { name: "ProcessDied", code: undefined, message: "the process that resumed the thread crashed" };
  return { taskId, nodeName, error: error === undefined ? died : { ...error, code: error.code, message: error.message } };
}

export function toStuck({ threadId, tries, triedAt, failure }: RecoveryRow): StuckThread {
  const { taskId, nodeName, error } = failureOf(failure);
  return { threadId, taskId, tries, nodeName, error, at: new Date(triedAt) };
}
