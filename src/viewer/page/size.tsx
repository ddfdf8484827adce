import type { VNode } from "preact";
import { ofThread } from "../addresses";
import type { Channels, Tokens } from "../api";
import { useAnswer } from "./ask";
import { go } from "./place";
import { Text } from "./text";
import { Loading, Trouble } from "./trouble";
import { bytes, count } from "./words";

/** What takes the space: bytes by channel, tokens by node and by task. */
export function SizeView({ thread, tick }: { thread: string; tick: number }): VNode {
  const sizes = useAnswer<Channels>(ofThread(thread, "channels"), tick);
  const tokens = useAnswer<Tokens>(ofThread(thread, "tokens"), tick);
  return (
    <section class="view scroll" aria-label="Size and tokens" tabIndex={0}>
      <h2>Size by channel</h2>
      {sizes.problem !== undefined && <Trouble problem={sizes.problem} />}
      {sizes.data === undefined && sizes.problem === undefined && <Loading what="sizes" />}
      {sizes.data !== undefined && (
        <Measured
          head={["Channel", "Stored", "Elements"]}
          caption="How much the channels of the newest checkpoint take"
          lines={sizes.data.channels.map(({ channel, bytes: size, elements }) => ({
            name: channel,
            share: size,
            cells: [bytes(size), elements === null ? "" : count(elements)],
            act: () => go({ tab: "state", channel }),
          }))}
        />
      )}
      {tokens.problem !== undefined && <Trouble problem={tokens.problem} />}
      {(["byNode", "byTask"] as const).map((by) => {
        const totals = tokens.data?.[by];
        if (totals === undefined) return null;
        return (
          <div key={by}>
            <h2>Tokens by {totals.by}</h2>
            {totals.lines.length === 0 ? (
              <p class="empty">No model reported tokens.</p>
            ) : (
              <Measured
                head={[totals.by === "node" ? "Node" : "Task", "In", "Out", "Cached"]}
                caption={`Tokens by ${totals.by}`}
                lines={totals.lines.map(({ of, input, output, cached, total }) => ({
                  name: of,
                  share: total,
                  cells: [count(input), count(output), count(cached)],
                }))}
              />
            )}
          </div>
        );
      })}
      {tokens.data?.byTask.rewound !== undefined && (
        <p class="dim">
          Rewound since, and not counted: {count(tokens.data.byTask.rewound.input)} in, {count(tokens.data.byTask.rewound.output)}{" "}
          out.
        </p>
      )}
    </section>
  );
}

interface Measure {
  name: string;
  share: number;
  cells: string[];
  act?: () => void;
}

function Measured({ head, caption, lines }: { head: string[]; caption: string; lines: Measure[] }): VNode {
  const most = Math.max(1, ...lines.map(({ share }) => share));
  return (
    <table class="measured">
      <caption class="sr">{caption}</caption>
      <thead>
        <tr>
          {head.map((name, index) => (
            <th key={name} scope="col" class={index === 0 ? "" : "number"}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {lines.map(({ name, share, cells, act }) => (
          <tr key={name}>
            <th scope="row">
              {act === undefined ? (
                <Text of={name} />
              ) : (
                <button type="button" class="quiet inline" onClick={act}>
                  <Text of={name} />
                </button>
              )}
              <i class="measure" aria-hidden="true" style={{ width: `${(share / most) * 100}%` }} />
            </th>
            {cells.map((cell, index) => (
              <td key={index} class="number">
                {cell}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
