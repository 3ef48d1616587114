// Scenarios of groups and transactions with kafkajs. `node main.js SCENARIO ADDRESS NAME` ends with exit code 0, or says
// what was not as it should be. NAME is what topics, groups and transactional ids begin with.
const assert = require("node:assert");
const { Kafka, logLevel } = require("kafkajs");

const [scenario, address, name] = process.argv.slice(2);
const PATIENCE_MS = 30_000;
const kafka = new Kafka({ clientId: "test", brokers: [address], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } });

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(what, claim) {
  const deadline = Date.now() + PATIENCE_MS;
  while (!claim()) {
    assert(Date.now() < deadline, `not in time: ${what}`);
    await sleep(20);
  }
}

async function create(topic, numPartitions) {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: -1 }], waitForLeaders: true });
  await admin.disconnect();
  return topic;
}

async function send(topic, count, partitions) {
  const producer = kafka.producer();
  await producer.connect();
  const messages = [...Array(count).keys()].map((number) => ({ value: `${number}`, partition: number % partitions }));
  await producer.send({ topic, messages });
  await producer.disconnect();
}

// A member of a group, the partitions it has, and what came.
class Member {
  constructor(groupId, topics, options = {}) {
    this.assigned = [];
    this.values = [];
    this.joins = 0;
    this.topics = topics;
    this.consumer = kafka.consumer({
      groupId, sessionTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 100, metadataMaxAge: 500, ...options,
    });
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.joins += 1;
      this.assigned = Object.values(payload.memberAssignment).flat();
    });
  }

  async start() {
    await this.consumer.connect();
    await this.consumer.subscribe({ topics: this.topics, fromBeginning: true });
    await this.consumer.run({
      autoCommit: true, autoCommitThreshold: 1,
      eachMessage: async ({ message }) => { this.values.push(message.value.toString()); },
    });
    return this;
  }

  async close() {
    await this.consumer.disconnect();
    this.assigned = [];
  }
}

const total = (...members) => members.reduce((sum, one) => sum + one.assigned.length, 0);

async function share() {
  const topic = await create(name, 6);
  const first = await new Member(name, [topic]).start();
  await until("one member has all", () => total(first) === 6);
  const second = await new Member(name, [topic]).start();
  await until("both share", () => first.assigned.length === 3 && second.assigned.length === 3);
  await send(topic, 60, 6);
  await until("all records come", () => first.values.length + second.values.length >= 60);
  assert.strictEqual(new Set([...first.values, ...second.values]).size, 60);
  await second.close();
  await until("the one that stays has all", () => total(first) === 6);
  await sleep(300);
  await first.close();
  const admin = kafka.admin();
  await admin.connect();
  const [offsets] = await admin.fetchOffsets({ groupId: name, topics: [topic] });
  assert.deepStrictEqual(offsets.partitions.map((one) => one.offset), Array(6).fill("10"));
  const { groups } = await admin.describeGroups([name]);
  assert.strictEqual(groups[0].state, "Empty");
  await admin.resetOffsets({ groupId: name, topic, earliest: true });
  assert((await admin.listGroups()).groups.some((one) => one.groupId === name && one.protocolType === "consumer"));
  await admin.disconnect();
  const again = await new Member(name, [topic]).start();
  await until("all records come again", () => again.values.length >= 60);
  await again.close();
  const last = kafka.admin();
  await last.connect();
  await last.deleteGroups([name]);
  assert(!(await last.listGroups()).groups.some((one) => one.groupId === name));
  await last.disconnect();
}

async function pattern() {
  await create(`${name}-a`, 2);
  const one = await new Member(name, [new RegExp(`^${name}-.*`)]).start();
  await until("the first topic", () => total(one) === 2);
  await one.close();
}

async function transform() {
  const source = await create(`${name}-source`, 1);
  const sink = await create(`${name}-sink`, 1);
  await send(source, 20, 1);
  const producer = kafka.producer({ transactionalId: name, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  for (const [end, isCommit] of [[8, true], [15, false], [12, true]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic: sink, messages: [{ value: `up to ${end}` }] });
    await transaction.sendOffsets({ consumerGroupId: name, topics: [{ topic: source, partitions: [{ partition: 0, offset: `${end}` }] }] });
    if (isCommit) await transaction.commit(); else await transaction.abort();
  }
  await producer.disconnect();
  const reader = await new Member(`${name}-reader`, [sink], { readUncommitted: false }).start();
  await until("what was committed comes", () => reader.values.length >= 2);
  await sleep(300);
  assert.deepStrictEqual(reader.values, ["up to 8", "up to 12"]);
  await reader.close();
  const admin = kafka.admin();
  await admin.connect();
  const [offsets] = await admin.fetchOffsets({ groupId: name, topics: [source] });
  assert.strictEqual(offsets.partitions[0].offset, "12");
  await admin.disconnect();
}

const scenarios = { share, pattern, transform };

scenarios[scenario]().then(
  () => process.exit(0),
  (error) => { console.error(error); process.exit(1); },
);
