import type { Message } from "./messages";
import type { Performance } from "./stage";
import { promise } from "./timeline";

let broken = 0;

/** How many promises were not kept so far. */
export function brokenPromises(): number {
  return broken;
}

export function check(kept: boolean, text: string): void {
  if (!kept) broken += 1;
  promise(kept, text);
}

/** All messages of one type that a worker sent. */
export function of<T extends Message["type"]>(performance: Performance, type: T): Extract<Message, { type: T }>[] {
  return performance.messages.filter((message): message is Extract<Message, { type: T }> => message.type === type);
}

export function stateAfter(performance: Performance, after: string): string | undefined {
  return of(performance, "state").find((message) => message.after === after)?.digest;
}

/** The subjects of the letters to which that happened, in the order in which it did. */
export function letters(performance: Performance, what: string): string[] {
  return of(performance, "effect")
    .filter(({ event }) => event.what === what)
    .map(({ event }) => event.effect.label.slice("id:".length));
}
