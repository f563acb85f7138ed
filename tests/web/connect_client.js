// Connect's own client for node, unchanged, against a node's HTTPS port: descriptors, origin and study on the command line.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, descriptors, roots, collector, right, study] = process.argv.slice(2);
const from = createRequire(`${modules}/`);
const load = (/** @type {string} */ name) => import(pathToFileURL(from.resolve(name)).href);
const { createFileRegistry, fromBinary } = await load("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = await load("@bufbuild/protobuf/wkt");
const { createClient, ConnectError, Code } = await load("@connectrpc/connect");
const { createConnectTransport } = await load("@connectrpc/connect-node");

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const service = (/** @type {string} */ name) => registry.getService(`trimask_proto.v1.${name}`);
const studyId = Uint8Array.from(Buffer.from(study, "hex"));
const told = [];
for (const useBinaryFormat of [true, false]) {
  const transport = (/** @type {string} */ baseUrl) =>
    createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat, nodeOptions: { ca: readFileSync(roots) } });
  const studies = createClient(service("StudyService"), transport(collector));
  const submissions = createClient(service("SubmissionService"), transport(right));
  const refusal = async (/** @type {Promise<unknown>} */ call) => {
    try {
      await call;
      return "answered";
    } catch (error) {
      if (!(error instanceof ConnectError)) throw error;
      return [Code[error.code], error.rawMessage, error.metadata.get("trimask-reason")];
    }
  };
  const { signedStudy } = await studies.getStudy({ studyId, forDevice: true }, { timeoutMs: 20_000 });
  const { keys } = await submissions.getSealingKeys({});
  told.push({
    title: JSON.parse(Buffer.from(signedStudy).toString()).study.title,
    key: Buffer.from(keys[0].publicKey).toString("hex"),
    unknown: await refusal(studies.getStudy({ studyId: new Uint8Array(32) })),
    malformed: await refusal(submissions.submit({ studyId })),
    elsewhere: await refusal(studies.listStudies({})),
  });
}
console.log(JSON.stringify(told));
