import { conversation, largeFiles, wideState } from "../drive/workloads";
import { race } from "./race";
import type { Scenario } from "./scenario";

/** Conversations of one message of about 1 KB per step. */
function thread(steps: number, threads: number, measured: number): Scenario {
  const name = `thread-${steps}`;
  const isLong = steps >= 500;
  return {
    name,
    run: ({ contenders, quick }) =>
      race({
        name,
        title: `A thread of ${steps.toLocaleString("en")} messages, one per step`,
        contenders,
        workload: conversation,
        steps,
        measured,
        threads: quick ? Math.ceil(threads / 4) : threads,
        seeds: isLong,
        history: isLong ? "ours" : "all",
      }),
  };
}

const states: Scenario[] = [
  {
    name: "large-files",
    run: ({ contenders, quick }) =>
      race({
        name: "large-files",
        title: "A state of 200 files of 10 KB, one of them written per step",
        contenders,
        workload: largeFiles,
        steps: quick ? 18 : 50,
        measured: quick ? 8 : 20,
        threads: 1,
        seeds: false,
        history: "ours",
      }),
  },
  {
    name: "wide-state",
    run: ({ contenders, quick }) =>
      race({
        name: "wide-state",
        title: "A state of 200 channels of 1 KB, three of them written per step",
        contenders,
        workload: wideState,
        steps: quick ? 30 : 100,
        measured: quick ? 10 : 20,
        threads: quick ? 1 : 4,
        seeds: false,
        history: "all",
      }),
  },
];

export const THOUSAND = "thread-1000";
/*
 * Many threads: the first ones run code that V8 hasn't compiled yet, which isn't what a running agent or server does.
 */
export const threadScenarios: Scenario[] = [thread(10, 50, 3), thread(100, 12, 10), thread(1_000, 1, 30), ...states];
