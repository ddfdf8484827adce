/** Stands in until the saver is written. */
export class PostgresTurnSaver {
  static fromConnString(url: string, options: object): object {
    throw new Error(`no saver on ${url} yet (${Object.keys(options).join()})`);
  }
}
