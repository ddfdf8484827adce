/** What the nodes of the corpus call. Nothing here runs: the tests read the source of functions. */
export const log = (..._: unknown[]): void => undefined;
export const fetchPage = (url: string, _?: object): Promise<string> => Promise.resolve(url);
export const sendMail = (_: { to: string; text: string }): Promise<{ id: string }> => Promise.resolve({ id: "1" });
export const model = {
  invoke: (_: unknown): Promise<{ content: string; tool_calls?: { name: string }[] }> => Promise.resolve({ content: "" }),
};
export const db = { all: <T>(_: string, ..._args: unknown[]): Promise<T[]> => Promise.resolve([]) };
export class Money {
  constructor(readonly cents: number) {}
}
