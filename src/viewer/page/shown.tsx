import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { Shown } from "../api";
import { ask, type Problem } from "./ask";
import { Json } from "./json";
import { Copy } from "./text";
import { Trouble } from "./trouble";
import { bytes } from "./words";

/**
 * A value of a thread: as much as the server sent, and a button for the rest.
 *
 * @param pick finds the value in the answer of the whole's address
 */
export function Value({
  of,
  label,
  pick,
  top,
}: {
  of: Shown;
  label: string;
  pick: (answer: never) => unknown;
  top?: (key: string) => VNode | null;
}): VNode {
  const [whole, setWhole] = useState<{ of: string; value: unknown } | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const isWhole = whole !== undefined && whole.of === of.whole;
  const value = isWhole ? whole.value : of.value;
  const load = async (address: string): Promise<void> => {
    try {
      setWhole({ of: address, value: pick(await ask<never>(address)) });
    } catch (failed) {
      setProblem(failed as Problem);
    }
  };
  const text = typeof value === "string" ? value : undefined;
  return (
    <div class="value-box">
      <Json value={value} label={label} {...(top && { top })} />
      <p class="under">
        <Copy text={() => text ?? JSON.stringify(value, null, 2)} what="Copy" />
        {of.cut && !isWhole && of.whole !== null && (
          <button type="button" class="quiet" onClick={() => void load(of.whole ?? "")}>
            Show all of it ({bytes(of.bytes)})
          </button>
        )}
      </p>
      {problem !== undefined && <Trouble problem={problem} />}
    </div>
  );
}
