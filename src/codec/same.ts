/** True for equal primitives, lists of equal primitives, and two empty plain objects: all that defaults are made of. */
export function sameDefault(value: unknown, fresh: unknown): boolean {
  if (Object.is(value, fresh)) return true;
  if (typeof value !== "object" || value === null || typeof fresh !== "object" || fresh === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.getPrototypeOf(fresh)) return false;
  if (Array.isArray(value) && Array.isArray(fresh)) {
    return (
      value.length === fresh.length &&
      Object.keys(value).length === fresh.length &&
      fresh.every((item, at) => Object.is(item, value[at]))
    );
  }
  return prototype === Object.prototype && Reflect.ownKeys(value).length === 0 && Reflect.ownKeys(fresh).length === 0;
}

/** True if an outdated value holds nothing that the current one does not hold too: it is empty, or a part of it. */
export function isPartOf(outdated: unknown, current: unknown): boolean {
  if (outdated === undefined || outdated === null || outdated === "") return true;
  if (typeof outdated !== "object") return false;
  const prototype: unknown = Object.getPrototypeOf(outdated);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return false;
  const owner = typeof current === "object" && current !== null ? current : {};
  return Reflect.ownKeys(outdated).every(
    (key) =>
      (key === "length" && Array.isArray(outdated)) ||
      (Object.hasOwn(owner, key) && Object.is(Reflect.get(owner, key), Reflect.get(outdated, key))),
  );
}
