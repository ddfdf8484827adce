import type { VNode } from "preact";
import type { Problem } from "./ask";
import { refresh } from "./live";
import { LongText } from "./text";

/** Why something can't be shown, and what to do. */
export function Trouble({ problem }: { problem: Problem }): VNode {
  return (
    <div class="trouble" role="alert">
      <LongText of={problem.message} />
      <p class="under">
        <span class="code">{problem.code}</span>
        <button type="button" class="quiet" onClick={refresh}>
          Try again
        </button>
      </p>
    </div>
  );
}

export function Loading({ what }: { what: string }): VNode {
  return <p class="loading">Reading {what} …</p>;
}
