/** `a:1|b:2` → `a:1` → the root, which is empty. */
export function namespaceAbove(ns: string): string {
  const cut = ns.lastIndexOf("|");
  return cut === -1 ? "" : ns.slice(0, cut);
}

/** Whether a namespace is the other one, or lies inside it. */
export function isWithin(ns: string, outer: string): boolean {
  return outer === "" || ns === outer || ns.startsWith(`${outer}|`);
}

/** The root and `a:1` → `a:1`; `a:1` and `b:2` → `a:1|b:2`. */
export function namespaceBelow(ns: string, segment: string): string {
  return ns === "" ? segment : `${ns}|${segment}`;
}

/** `a:1|b:2` → `2`: the part after the last colon. Node names can't contain a colon. */
export function nodeTaskIdOf(nodeNs: string): string {
  return nodeNs.slice(nodeNs.lastIndexOf(":") + 1);
}
