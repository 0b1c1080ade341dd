// GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
// The commands that help now, for each kind of object and of problem. The page itself changes nothing.

const OURS = "-n composable-infra", AGENTS = `${OURS} -l app.kubernetes.io/component=node-agent`;
const CONFIG = "-e composable_config_path=config.yml";

const playbook = (name, more = "") => `ansible-playbook composable.infra.${name} ${CONFIG}${more ? ` ${more}` : ""}`;

// [what it is for, command] for an object of the API.
function ofObject({ kind, name, namespace }) {
  const type = kind.toLowerCase(), where = namespace ? ` -n ${namespace}` : "";
  const found = [[`facts and Events of ${kind} ${name}`, `kubectl describe ${type} ${name}${where}`]];
  if (kind === "Pod") found.push([`log of ${kind} ${name}`, `kubectl logs ${name}${where} --all-containers --tail=50`]);
  else found.push([`the whole ${kind}`, `kubectl get ${type} ${name}${where} -o yaml`]);
  return found;
}

const controllers = (word) => [`log lines of the controllers about ${word}`, `kubectl logs ${OURS} deployment/composable-infra --since=1h | grep -F '${word}'`];

function ofNode(row) {
  if (!row.is_node) return [["inventory of the CDI Manager", playbook("report")]];
  const found = [];
  if (!row.ready || row.problem) found.push(["pod of its node agent", `kubectl get pods ${AGENTS} -o wide --field-selector spec.nodeName=${row.name}`], ["log of the node agents", `kubectl logs ${AGENTS} --tail=50 --prefix`]);
  if ((row.devices ?? []).some((device) => device.state === "idle")) found.push(["return its idle devices now (--check only lists them)", playbook("detach", `-e composable_detach_nodes=${row.name} --check`)]);
  if (row.cordoned) found.push(["allow new pods on it again", `kubectl uncordon ${row.name}`]);
  return [...found, ["its devices as the driver publishes them", `kubectl get resourceslices --field-selector spec.nodeName=${row.name}`]];
}

function ofDevice(row) {
  const found = [];
  if (row.trouble || row.warning) found.push(["log of the node agents", `kubectl logs ${AGENTS} --tail=50 --prefix`], ["the pods of its node", `kubectl get pods -A -o wide --field-selector spec.nodeName=${row.node}`]);
  if (row.state === "idle") found.push(["return the idle devices of its node now (--check only lists them)", playbook("detach", `-e composable_detach_nodes=${row.node} --check`)]);
  if (row.state === "unmanaged") found.push(["compare the fabric with the cluster", playbook("report")]);
  return found;
}

function ofClaim(row) {
  if (row.state === "waiting" || row.state === "preparing") return [["the devices that each waiting claim would get", playbook("plan")]];
  return [];
}

// All commands for what is open, the ones for its problem first. objects: those that the story names.
export function commands(key, row, objects = []) {
  const kind = key.slice(0, key.indexOf("/")), name = kind === "claim" ? row.name : key.slice(key.indexOf("/") + 1);
  const first = { claim: ofClaim, device: ofDevice, node: ofNode, machine: ofNode }[kind]?.(row) ?? [["inventory of the CDI Manager", playbook("report")]];
  const found = [...first, ...objects.flatMap(ofObject)];
  if (["claim", "device", "node"].includes(kind)) found.push(controllers(kind === "claim" ? `${row.namespace}/${name}` : name));
  return found;
}

// The command for a problem of the process, by what it is about.
export function againstTrouble(what) {
  return { "CDI Manager": playbook("report"), inventory: `kubectl logs ${OURS} deployment/composable-infra --tail=50`, "API server": `kubectl get pods ${OURS}`,
    page: `kubectl get pods ${OURS}`, pools: "kubectl get resourceslices,deviceclasses" }[what] ?? `kubectl logs ${OURS} deployment/composable-infra --tail=50`;
}
