import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** How many rows beyond the visible ones are there. */
const SPARE = 8;

interface Shown {
  first: number;
  last: number;
}

/**
 * Rows of one height, of which only those in sight are in the page. It scrolls in the nearest `.scroll` around it.
 *
 * @param keep a row that is brought into sight when it changes; -1: none
 */
export function Rows({
  count,
  height,
  row,
  keep = -1,
  role,
  label,
}: {
  count: number;
  height: number;
  row: (index: number) => ComponentChildren;
  keep?: number;
  role?: "list" | "tree";
  label?: string;
}): VNode {
  const box = useRef<HTMLDivElement>(null);
  const [shown, setShown] = useState<Shown>({ first: 0, last: 60 });

  useEffect(() => {
    const pane = box.current?.closest(".scroll");
    if (!pane) return;
    const measure = (): void => {
      const rows = box.current;
      if (rows === null) return;
      const isInside = pane.scrollHeight > pane.clientHeight + 1;
      const top = isInside ? pane.getBoundingClientRect().top : 0;
      const space = isInside ? pane.clientHeight : innerHeight;
      const above = top - rows.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(above / height) - SPARE);
      const last = Math.ceil((above + space) / height) + SPARE;
      setShown((old) => (old.first === first && old.last === last ? old : { first, last }));
    };
    measure();
    pane.addEventListener("scroll", measure, { passive: true });
    addEventListener("scroll", measure, { passive: true, capture: true });
    const size = new ResizeObserver(measure);
    size.observe(pane);
    return () => {
      pane.removeEventListener("scroll", measure);
      removeEventListener("scroll", measure, { capture: true });
      size.disconnect();
    };
  }, [height, count]);

  useLayoutEffect(() => {
    if (keep < 0) return;
    const pane = box.current?.closest(".scroll");
    const rows = box.current;
    if (!pane || rows === null || pane.scrollHeight <= pane.clientHeight + 1) return;
    const at = rows.getBoundingClientRect().top - pane.getBoundingClientRect().top + pane.scrollTop + keep * height;
    const [from, upto] = [pane.scrollTop + 2 * height, pane.scrollTop + pane.clientHeight - 2 * height];
    if (at < from || at > upto) pane.scrollTop = Math.max(0, at - pane.clientHeight / 2);
  }, [keep, height]);

  const first = Math.min(shown.first, Math.max(0, count - 1));
  const last = Math.min(count, Math.max(shown.last, first));
  const visible = Array.from({ length: Math.max(0, last - first) }, (_, index) => row(first + index));
  return (
    <div class="rows" ref={box} style={{ height: `${count * height}px` }}>
      <div class="shift" role={role} aria-label={label} style={{ transform: `translateY(${first * height}px)` }}>
        {visible}
      </div>
    </div>
  );
}
