import { type Options, parse } from "acorn";

/** A node of the syntax tree, as ESTree names and builds it: `{ type: "BinaryExpression", operator, left, right }`. */
export interface Syntax {
  type: string;
  [field: string]: unknown;
}

/**
 * The version is fixed: what a newer parser understands would change fingerprints, and newer syntax needs a canonical form first.
 * What surrounds the function isn't there, so it may use `super` and private names that nothing declares.
 */
const OPTIONS: Options = { ecmaVersion: 2025, sourceType: "module", allowSuperOutsideMethod: true, checkPrivateFields: false };

/**
 * Parses what `Function.prototype.toString` returns: a function, an arrow function, a class or a method. Unknown syntax
 * (decorators, `using`, JSX), and what strict mode forbids, is refused rather than guessed.
 *
 * @returns a function or class expression; for a method, its `MethodDefinition`
 * @throws {SyntaxError}
 */
export function parseFunction(source: string): Syntax {
  try {
    return expression(`(${source})`);
  } catch {
    const members = (expression(`(class extends null{${source}})`)["body"] as { body: [Syntax, ...Syntax[]] }).body;
    if (members.length === 1) return members[0];
    throw new SyntaxError("not a function");
  }
}

function expression(text: string): Syntax {
  const [statement, more] = parse(text, OPTIONS).body;
  if (statement?.type !== "ExpressionStatement" || more !== undefined) throw new SyntaxError("not one expression");
  return statement.expression as unknown as Syntax;
}
