import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Text } from "./text";
import { count } from "./words";
import { Rows } from "./virtual";

/** A line of a value. */
interface Line {
  path: string;
  depth: number;
  key: string | undefined;
  kind: "open" | "string" | "number" | "word" | "cut" | "part";
  text: string;
  /** Whether it has something inside; undefined if it hasn't. */
  isOpen: boolean | undefined;
}

/** As `shown.ts` on the server writes what is left out. */
interface CutValue {
  $cut: string;
  shown?: unknown;
  length?: number;
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const isCut = (value: unknown): value is CutValue => isRecord(value) && typeof value["$cut"] === "string";

/** A text that is longer, or has line ends, can be opened. */
const ONE_LINE = 90;
/** How much of an open text is in a line. */
const WIDTH = 76;
/** What isn't opened or closed by hand is open this deep, if it is small. */
const OPEN_DEPTH = 2;
const OPEN_PARTS = 30;
const MOST_DEPTH = 400;

/** The lines of a value, with what is open. Works on values of any depth. */
function linesOf(value: unknown, name: string | undefined, toggled: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  const waiting: { value: unknown; key: string | undefined; path: string; depth: number }[] = [
    { value, key: name, path: "$", depth: 0 },
  ];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { key, path, depth } = next;
    const line = (kind: Line["kind"], text: string, isOpen?: boolean): void => {
      lines.push({ path, depth, key, kind, text, isOpen });
    };
    let inner = next.value;
    let missing = "";
    if (isCut(inner)) {
      const { $cut, shown, length = 0 } = inner;
      if (shown === undefined) {
        line("cut", $cut === "depth" ? "nested more deeply than is shown" : $cut);
        continue;
      }
      missing = $cut === "text" ? `… ${count(length)} characters in all` : `… ${count(length)} in all`;
      inner = shown;
    }
    if (typeof inner === "string") {
      const isLong = inner.length > ONE_LINE || inner.includes("\n");
      const isOpen = isLong ? toggled.has(path) : undefined;
      if (isOpen === true) {
        line("string", `${count(inner.length)} characters`, true);
        pieces(inner).forEach((text, index) =>
          lines.push({ path: `${path}"${index}`, depth: depth + 1, key: undefined, kind: "part", text, isOpen: undefined }),
        );
        if (missing !== "")
          lines.push({ path: `${path}"cut`, depth: depth + 1, key: undefined, kind: "cut", text: missing, isOpen: undefined });
      } else
        line(
          "string",
          `${JSON.stringify(inner.slice(0, ONE_LINE))}${isLong ? "…" : ""}${missing === "" ? "" : ` ${missing}`}`,
          isOpen,
        );
      continue;
    }
    if (!isRecord(inner)) {
      line(typeof inner === "number" ? "number" : "word", String(inner));
      continue;
    }
    const isList = Array.isArray(inner);
    const parts = Object.entries(inner);
    const brackets = isList ? "[]" : "{}";
    if (parts.length === 0 && missing === "") {
      line("word", brackets);
      continue;
    }
    const byItself = depth < OPEN_DEPTH && parts.length <= OPEN_PARTS;
    const isOpen = toggled.has(path) !== byItself && depth < MOST_DEPTH;
    const what = missing === "" ? `${count(parts.length)} ${isList ? "elements" : "keys"}` : missing;
    line(
      "open",
      `${brackets[0]}${isOpen ? "" : "…"}${isOpen ? "" : brackets[1]}  ${summary(inner, isList, isOpen)}${what}`,
      isOpen,
    );
    if (!isOpen) continue;
    for (let index = parts.length - 1; index >= 0; index -= 1) {
      const [part, partValue] = parts[index] ?? ["", undefined];
      waiting.push({ value: partValue, key: part, path: `${path}/${part.replaceAll("/", "~1")}`, depth: depth + 1 });
    }
  }
  return lines;
}

/** A closed object tells what it is by its type, name, or id. */
function summary(value: object, isList: boolean, isOpen: boolean): string {
  if (isList || isOpen) return "";
  const record = value as Record<string, unknown>;
  const told = ["type", "role", "name", "title", "id"].flatMap((name) => {
    const part = Object.hasOwn(record, name) ? record[name] : undefined;
    return typeof part === "string" && part.length < 40 ? [`${name} ${JSON.stringify(part)}`] : [];
  });
  return told.length === 0 ? "" : `${told.slice(0, 2).join(", ")} · `;
}

/** A text in lines of equal height: at its line ends, and where it is too wide. */
function pieces(text: string): string[] {
  return text.split("\n").flatMap((line) => {
    const cut: string[] = [];
    for (let from = 0; from === 0 || from < line.length; from += WIDTH) cut.push(line.slice(from, from + WIDTH));
    return cut;
  });
}

const LINE_HEIGHT = 22;

/**
 * A value as a tree that is walked by arrow keys. Only the lines in sight are in the page.
 *
 * @param top what is beside a line of the outermost object: `state.topics`
 */
export function Json({ value, label, top }: { value: unknown; label: string; top?: (key: string) => VNode | null }): VNode {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState(0);
  const moved = useRef(false);
  const box = useRef<HTMLDivElement>(null);
  const lines = useMemo(() => {
    const all = linesOf(value, undefined, toggled);
    // The outermost object's own line tells nothing.
    return all.length > 1 && all[0]?.kind === "open" && all[0].isOpen === true
      ? all.slice(1).map((line) => ({ ...line, depth: line.depth - 1 }))
      : all;
  }, [value, toggled]);
  const at = Math.min(active, lines.length - 1);
  const toggle = (path: string): void => {
    const next = new Set(toggled);
    if (!next.delete(path)) next.add(path);
    setToggled(next);
  };
  const move = (to: number): void => {
    moved.current = true;
    setActive(Math.max(0, Math.min(lines.length - 1, to)));
  };
  useEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    box.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus({ preventScroll: false });
  });
  const parentOf = (index: number): number => {
    const depth = lines[index]?.depth ?? 0;
    return lines.findLastIndex((line, other) => other < index && line.depth < depth);
  };
  const pressed = (event: KeyboardEvent): void => {
    const line = lines[at];
    if (line === undefined || (event.target as HTMLElement).closest("button")) return;
    const does: Record<string, () => void> = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      Home: () => move(0),
      End: () => move(lines.length - 1),
      ArrowRight: () => (line.isOpen === false ? toggle(line.path) : move(at + 1)),
      ArrowLeft: () => (line.isOpen === true ? toggle(line.path) : move(parentOf(at))),
      Enter: () => line.isOpen !== undefined && toggle(line.path),
      " ": () => line.isOpen !== undefined && toggle(line.path),
    };
    const act = does[event.key];
    if (act === undefined || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    moved.current = true;
    act();
  };
  const row = (index: number): VNode | null => {
    const line = lines[index];
    if (line === undefined) return null;
    const extra = line.depth === 0 && line.key !== undefined && line.kind !== "part" ? (top?.(line.key) ?? null) : null;
    return (
      <div
        key={line.path}
        role="treeitem"
        class={`json-line ${line.kind}`}
        aria-level={line.depth + 1}
        aria-expanded={line.isOpen}
        aria-selected={index === at}
        tabIndex={index === at ? 0 : -1}
        onClick={() => {
          move(index);
          if (line.isOpen !== undefined) toggle(line.path);
        }}
        style={{ paddingLeft: `${10 + Math.min(line.depth, 24) * 14}px` }}
      >
        <span class="fold" aria-hidden="true">
          {line.isOpen === undefined ? "" : line.isOpen ? "▾" : "▸"}
        </span>
        {line.key !== undefined && (
          <span class="key">
            <Text of={line.key} />
            {": "}
          </span>
        )}
        <span class="value">
          <Text of={line.text} />
        </span>
        {extra}
      </div>
    );
  };
  return (
    <div class="json" ref={box} onKeyDown={pressed}>
      <Rows count={lines.length} height={LINE_HEIGHT} role="tree" label={label} row={row} keep={active === 0 ? -1 : at} />
    </div>
  );
}
