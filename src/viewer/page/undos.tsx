import type { VNode } from "preact";
import type { RewindEffect } from "../api";
import { Pill, Text } from "./text";

const CAREFUL = new Set(["missing", "ambiguous", "in-doubt", "undo-in-doubt", "running"]);

/** Effects in the order in which a rewind undoes them. */
export function Undos({ effects }: { effects: readonly RewindEffect[] }): VNode | null {
  if (effects.length === 0) return <p class="dim">No effects were recorded there: nothing is undone.</p>;
  return (
    <ol class="undos">
      {effects.map(({ id, title, nodeName, verdict, words }) => (
        <li key={id}>
          <span>
            <b>
              <Text of={title} />
            </b>{" "}
            <span class="dim">
              of <Text of={nodeName} />
            </span>
          </span>
          <Pill kind={verdict === "undo" ? "run" : CAREFUL.has(verdict) ? "bad" : "plain"}>{words}</Pill>
        </li>
      ))}
    </ol>
  );
}
