/** True for equal primitives, lists of equal primitives, and two empty plain objects: all that defaults are made of. */
export function sameDefault(value: unknown, fresh: unknown): boolean {
  if (typeof fresh !== "object" || fresh === null || typeof value !== "object" || value === null) return Object.is(value, fresh);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.getPrototypeOf(fresh)) return false;
  if (!Array.isArray(fresh)) return prototype === Object.prototype && isEmpty(value) && isEmpty(fresh);
  if (!Array.isArray(value) || value.length !== fresh.length || Object.keys(value).length !== fresh.length) return false;
  for (let i = 0; i < fresh.length; i++) if (!Object.is(value[i], fresh[i])) return false;
  return true;
}

/** True if an outdated value holds nothing that the current one does not hold too: it is empty, or a part of it. */
export function isPartOf(outdated: unknown, current: unknown): boolean {
  if (outdated === undefined || outdated === null || outdated === "") return true;
  if (typeof outdated !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(outdated);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return false;
  const owner = typeof current === "object" && current !== null ? current : {};
  return Object.keys(outdated).every(
    (key) => Object.hasOwn(owner, key) && Object.is(Reflect.get(owner, key), Reflect.get(outdated, key)),
  );
}

function isEmpty(value: object): boolean {
  return Object.keys(value).length === 0 && Object.getOwnPropertySymbols(value).length === 0;
}
