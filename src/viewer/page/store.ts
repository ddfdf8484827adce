import { useLayoutEffect, useState } from "preact/hooks";

/** A value that components read, and that changes from anywhere. */
interface Store<T> {
  get(): T;
  set(value: T): void;
  /** In a component: the value, and a new rendering when it changes. */
  use(): T;
}

export function store<T>(initial: T): Store<T> {
  let value = initial;
  const readers = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const read of [...readers]) read();
    },
    use() {
      const [, render] = useState(0);
      const rendered = value;
      useLayoutEffect(() => {
        const read = (): void => render((count) => count + 1);
        readers.add(read);
        // It may have changed since it was rendered, when nobody told this component of it.
        if (!Object.is(rendered, value)) read();
        return () => void readers.delete(read);
      }, []);
      return rendered;
    },
  };
}
