/** What we log through: pino's shape, so that a pino logger can be passed as it is. */
export interface Logger {
  debug(data: object, message: string): void;
  info(data: object, message: string): void;
  warn(data: object, message: string): void;
  error(data: object, message: string): void;
}

/** Silent but for warnings and errors, which go to stderr. */
export const defaultLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (data, message) => {
    console.warn(`langgraph-checkpoint-turns: ${message}`, JSON.stringify(data));
  },
  error: (data, message) => {
    console.error(`langgraph-checkpoint-turns: ${message}`, JSON.stringify(data));
  },
};
