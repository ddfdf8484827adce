import { Client } from "pg";
import { startServer } from "../support/postgres/server";

test("PostgreSQL: the server of the tests answers, as a role that owns its database and is no superuser", async () => {
  const client = await connected(process.env["TURNS_PG_DIRECT_URL"]!);
  const { rows } = await client.query("SELECT count(*) AS roles FROM pg_roles WHERE rolname = current_user");
  expect(rows).toEqual([{ roles: "1" }]);
  await client.end();
});

test("PostgreSQL: a server of our own survives a killed postmaster with every committed row", async () => {
  const server = await startServer();
  try {
    const client = await connected(server.url);
    await client.query("CREATE TABLE kept (id int)");
    await client.query("INSERT INTO kept VALUES (1)");
    const lost = new Promise((done) => client.on("error", done));
    server.crash();
    await lost;
    await server.restart();
    const again = await connected(server.url);
    expect((await again.query("SELECT id FROM kept")).rows).toEqual([{ id: 1 }]);
    await again.end();
  } finally {
    await server.stop();
  }
  await expect(connected(server.url)).rejects.toThrow();
});

async function connected(url: string): Promise<Client> {
  const client = new Client(url);
  await client.connect();
  return client;
}
