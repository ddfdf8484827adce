import type { Syntax } from "./parse-javascript";
import type { Binding } from "./resolve-names";
import { withoutSingleUse } from "./single-use";

/** What a block does, statement by statement, in one form for all ways to write it. */
export function statementsOf(block: readonly Syntax[]): Syntax[] {
  return arranged(withoutSingleUse(simple(block), (statement) => simple([statement])));
}

/** One action per statement: without blocks, lists of declarations, and expressions used as statements. */
function simple(statements: readonly Syntax[]): Syntax[] {
  return statements.flatMap((node): Syntax[] => {
    switch (node.type) {
      case "EmptyStatement":
        return [];
      case "BlockStatement":
        return simple(node["body"] as Syntax[]);
      case "VariableDeclaration":
        return (node["declarations"] as unknown[]).map((declaration) => ({ ...node, declarations: [declaration] }));
      case "ExpressionStatement":
        return simpleExpression(node["expression"] as Syntax);
      case "ReturnStatement":
        return node["argument"] === null ? [node] : returned(node["argument"] as Syntax);
      case "ThrowStatement":
      case "IfStatement":
      case "SwitchStatement": {
        const key = node.type === "ThrowStatement" ? "argument" : node.type === "IfStatement" ? "test" : "discriminant";
        const { before, last } = lastOf(node[key] as Syntax);
        return [...before, { ...node, [key]: last }];
      }
      case "WhileStatement":
        return [{ ...node, type: "ForStatement", init: null, update: null }];
      case "ForStatement": {
        const init = node["init"] as Syntax | null;
        if (init === null || (init.type === "VariableDeclaration" && init["kind"] !== "var")) return [node];
        return [...simple([init.type === "VariableDeclaration" ? init : statementOf(init)]), { ...node, init: null }];
      }
      default:
        return [node];
    }
  });
}

export function statementOf(expression: Syntax): Syntax {
  return { type: "ExpressionStatement", expression };
}

function lastOf(node: Syntax): { before: Syntax[]; last: Syntax } {
  if (node.type !== "SequenceExpression") return { before: [], last: node };
  const expressions = node["expressions"] as Syntax[];
  return { before: simple(expressions.slice(0, -1).map(statementOf)), last: expressions.at(-1) as Syntax };
}

function returned(argument: Syntax): Syntax[] {
  const { before, last } = lastOf(argument);
  if (before.length > 0) return [...before, ...returned(last)];
  const of = (value: unknown): Syntax => ({ type: "ReturnStatement", argument: value });
  if (last.type === "ConditionalExpression")
    return simple([
      { type: "IfStatement", test: last["test"], consequent: of(last["consequent"]), alternate: of(last["alternate"]) },
    ]);
  if (last.type === "UnaryExpression" && last["operator"] === "void" && (last["argument"] as Syntax).type !== "Literal")
    return [...simpleExpression(last["argument"] as Syntax), { type: "ReturnStatement", argument: null }];
  return [of(last)];
}

/** For an expression whose value nobody uses. */
function simpleExpression(node: Syntax): Syntax[] {
  const branch = (test: unknown, consequent: Syntax, alternate: Syntax | null): Syntax[] =>
    simple([{ type: "IfStatement", test, consequent, alternate }]);
  const statement = (key: string): Syntax => statementOf(node[key] as Syntax);
  switch (node.type) {
    case "SequenceExpression":
      return simple((node["expressions"] as Syntax[]).map(statementOf));
    case "ConditionalExpression":
      return branch(node["test"], statement("consequent"), statement("alternate"));
    case "LogicalExpression":
      if (node["operator"] === "&&") return branch(node["left"], statement("right"), null);
      if (node["operator"] === "||") return branch(node["left"], { type: "EmptyStatement" }, statement("right"));
      return [statementOf(node)];
    case "UnaryExpression":
      return ["!", "void"].includes(node["operator"] as string)
        ? simpleExpression(node["argument"] as Syntax)
        : [statementOf(node)];
    case "AssignmentExpression": {
      const { operator, left, right } = node as Syntax & { operator: string; left: Syntax };
      const short = operator.slice(0, -1);
      if (!["&&", "||"].includes(short) || (left.type !== "Local" && left.type !== "Free")) return [statementOf(node)];
      return simpleExpression({
        type: "LogicalExpression",
        operator: short,
        left,
        right: { type: "AssignmentExpression", operator: "=", left, right },
      });
    }
    case "CallExpression": {
      // `__name(helper, "helper")` after a declaration.
      const [named] = node["arguments"] as Syntax[];
      const keeps = (node["callee"] as Syntax)["name"] === "__name" && (node["callee"] as Syntax).type === "Free";
      return keeps && named?.type === "Local" && isNamed(named) ? [] : [statementOf(node)];
    }
    default:
      return [statementOf(node)];
  }
}

/** Statements after a branch that leaves become the other branch. */
function arranged(statements: Syntax[]): Syntax[] {
  const block = (body: readonly Syntax[]): Syntax => ({ type: "BlockStatement", body });
  for (const [at, node] of statements.entries()) {
    const rest = statements.slice(at + 1);
    if (leaves([node])) return [...statements.slice(0, at + 1), ...rest.filter(({ type }) => type.endsWith("Declaration"))];
    if (node.type !== "IfStatement" || rest.length === 0) continue;
    const [then, otherwise] = [
      simple([node["consequent"] as Syntax]),
      node["alternate"] === null ? [] : simple([node["alternate"] as Syntax]),
    ];
    if (!leaves(then) && !leaves(otherwise)) continue;
    const consequent = block(leaves(then) ? then : [...then, ...rest]);
    const alternate = block(leaves(then) ? [...otherwise, ...rest] : otherwise);
    return [...statements.slice(0, at), { ...node, consequent, alternate }];
  }
  return statements;
}

/** Whether nothing after these statements is reached. */
function leaves(statements: readonly Syntax[]): boolean {
  return simple(statements).some((node) => {
    if (/^(?:Return|Throw|Break|Continue)Statement$/.test(node.type)) return true;
    return (
      node.type === "IfStatement" &&
      node["alternate"] !== null &&
      leaves([node["consequent"] as Syntax]) &&
      leaves([node["alternate"] as Syntax])
    );
  });
}

/** `a && (b && c)` is `(a && b) && c`. */
export function operandsOf(node: Syntax): Syntax[] {
  const operator = node["operator"] as string;
  return ["left", "right"].flatMap((key) => {
    const operand = node[key] as Syntax;
    return operand.type === "LogicalExpression" && operand["operator"] === operator ? operandsOf(operand) : [operand];
  });
}

/** Whether it contains only literals and operators. */
export function isLiteral(node: Syntax): boolean {
  if (node.type === "UnaryExpression") return isLiteral(node["argument"] as Syntax);
  if (node.type === "BinaryExpression") return isLiteral(node["left"] as Syntax) && isLiteral(node["right"] as Syntax);
  return (
    node.type === "Literal" ||
    (node.type === "TemplateLiteral" && (node["expressions"] as unknown[]).length === 0) ||
    isUndefined(node)
  );
}

export function isUndefined(node: Syntax | null): boolean {
  if (node === null) return true;
  const isVoid =
    node.type === "UnaryExpression" && node["operator"] === "void" && (node["argument"] as Syntax).type === "Literal";
  return isVoid || (node.type === "Free" && node["name"] === "undefined");
}

export function isUnused({ reads, writes }: Binding): boolean {
  return reads + writes === 0;
}

/** A function or class whose name esbuild keeps by `__name`. */
export function isNamed(node: Syntax): boolean {
  return (
    /Function|Class/.test(node.type) ||
    (node.type === "Local" && ["function", "class"].includes((node["binding"] as Binding).kind))
  );
}

/** `static { __name(this, "Name") }` */
export function keepsName(member: Syntax): boolean {
  if (member.type !== "StaticBlock") return false;
  const [only, more] = member["body"] as Syntax[];
  const call = only?.["expression"] as Syntax | undefined;
  const callee = call?.["callee"] as Syntax | undefined;
  return more === undefined && callee?.["name"] === "__name" && (call?.["arguments"] as Syntax[])[0]?.type === "ThisExpression";
}

export function bindingsIn(node: unknown): Binding[] {
  if (typeof node !== "object" || node === null) return [];
  if ((node as Syntax).type === "Local") return [(node as Syntax)["binding"] as Binding];
  const parts = (node as Syntax).type === "VariableDeclarator" ? [(node as Syntax)["id"]] : Object.values(node);
  return parts.flatMap(bindingsIn);
}
