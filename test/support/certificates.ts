/** Certificates made on the spot, by openssl. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Certificates {
  /** Of the authority, PEM. */
  readonly ca: string;
  readonly key: string;
  readonly cert: string;
}

/**
 * An authority of its own, and a certificate that it signed.
 * @param names as openssl writes them, e.g. `DNS:example.com,IP:127.0.0.1`
 * @param options.days how long it is valid; in the past when negative
 */
export function createCertificates(names: string, options: { days?: number } = {}): Certificates {
  const folder = mkdtempSync(join(tmpdir(), "certificates-"));
  const openssl = (command: string): void => {
    const run = Bun.spawnSync(["openssl", ...command.split(" ")], { cwd: folder });
    if (run.exitCode !== 0) throw new Error(`openssl ${command}: ${run.stderr}`);
  };
  try {
    const newKey = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(`req -x509 ${newKey} -keyout ca.key -out ca.pem -days 30 -subj /CN=authority`);
    openssl(`req ${newKey} -keyout own.key -out own.csr -subj /CN=origin`);
    writeFileSync(join(folder, "names"), `subjectAltName=${names}`);
    const signed = "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out own.pem -extfile names";
    openssl(`${signed} -days ${options.days ?? 30}`);
    const read = (name: string): string => readFileSync(join(folder, name), "utf8");
    return { ca: read("ca.pem"), key: read("own.key"), cert: read("own.pem") };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
