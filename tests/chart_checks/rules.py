"""Rules of our own for what the chart renders: every one takes all objects of a rendering."""

from helm import name_of, of_kind, pod_specs
from report import must

STATEFUL = ("dedup", "scheduler", "archiver")
PORT = 9100


def is_nats(labels):
    return labels["app.kubernetes.io/component"] == "nats"


def pods_are_confined(documents):
    for document, _, spec in pod_specs(documents):
        name, security = name_of(document), spec["securityContext"]
        must(security["runAsNonRoot"] is True and security["runAsUser"] == 65532, f"{name} runs as root")
        must(security["seccompProfile"] == {"type": "RuntimeDefault"}, f"{name} has no seccomp profile")
        must("hostNetwork" not in spec and "hostPID" not in spec, f"{name} is not confined")
        for container in spec["containers"]:
            inner = container["securityContext"]
            must(inner["readOnlyRootFilesystem"] is True, f"{name} may write to its root")
            must(inner["allowPrivilegeEscalation"] is False, f"{name} may get more rights")
            must(inner["capabilities"] == {"drop": ["ALL"]}, f"{name} has capabilities")


def only_the_conductor_may_ask_the_cluster(documents):
    for document, labels, spec in pod_specs(documents):
        is_conductor = labels["app.kubernetes.io/component"] == "conductor"
        must(spec["automountServiceAccountToken"] is is_conductor, f"{name_of(document)}: token of the service account")
        must(("serviceAccountName" in spec) == is_conductor, f"{name_of(document)}: service account")
    roles = of_kind(documents, "Role")
    must(len(roles) == 1, "there is one Role")
    rules = {rule["resources"][0]: rule for rule in roles[0]["rules"]}
    must(set(rules) == {"statefulsets", "events"}, f"rights on {set(rules)}")
    must(rules["statefulsets"]["verbs"] == ["get"], "StatefulSets are only read")
    sets = {document["metadata"]["name"] for document in of_kind(documents, "StatefulSet")}
    named = set(rules["statefulsets"]["resourceNames"])
    must(named == {name for name in sets if name.endswith(("-dedup", "-scheduler"))}, f"rights on {named} of {sets}")


def resources_are_named(documents):
    for document, _, spec in pod_specs(documents):
        for container in spec["containers"]:
            resources = container["resources"]
            must({"cpu", "memory"} <= set(resources["requests"]), f"{name_of(document)} requests cpu and memory")
            must("memory" in resources["limits"], f"{name_of(document)} has a limit of memory")


def probes_ask_the_paths_that_programs_serve(documents):
    for document, labels, spec in pod_specs(documents):
        if document["kind"] in ("Job", "Pod") or is_nats(labels):
            continue
        container, name = spec["containers"][0], name_of(document)
        must(container["ports"] == [{"name": "metrics", "containerPort": PORT}], f"{name}: ports")
        for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
            must(container[probe]["httpGet"] == {"path": path, "port": "metrics"}, f"{name}: {probe}")
            must(container[probe]["timeoutSeconds"] >= 1, f"{name}: {probe} waits longer than a probe takes")


def selectors_find_pods(documents):
    """Services, budgets, monitors, StatefulSets and Deployments select pods that there are; named ports exist."""
    pods = [(labels, spec) for _, labels, spec in pod_specs(documents)]

    def selected(labels):
        return [spec for have, spec in pods if labels.items() <= have.items()]

    for document in of_kind(documents, "Service"):
        found = selected(document["spec"]["selector"])
        must(found, f"{name_of(document)} selects nothing")
        ports = {port["name"] for spec in found for port in spec["containers"][0]["ports"]}
        for port in document["spec"]["ports"]:
            must(port["targetPort"] in ports, f"{name_of(document)}: no pod has the port {port['targetPort']}")
    for document in of_kind(documents, "PodDisruptionBudget", "Deployment", "StatefulSet"):
        must(selected(document["spec"]["selector"]["matchLabels"]), f"{name_of(document)} selects nothing")
    for document in of_kind(documents, "NetworkPolicy"):
        must(selected(document["spec"]["podSelector"]["matchLabels"]), f"{name_of(document)} selects nothing")


def volumes_are_there(documents):
    configs = {document["metadata"]["name"] for document in of_kind(documents, "ConfigMap")}
    for document, _, spec in pod_specs(documents):
        name = name_of(document)
        volumes = {volume["name"] for volume in spec["volumes"]}
        claims = {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
        must(not volumes & claims, f"{name}: {volumes & claims} are both")
        mounted = {mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
        must(mounted == volumes | claims, f"{name} mounts {mounted}, and has {volumes | claims}")
        for volume in spec["volumes"]:
            if "configMap" in volume:
                must(volume["configMap"]["name"] in configs, f"{name}: no ConfigMap {volume['configMap']['name']}")


def a_pod_has_its_own_credentials_alone(documents):
    for document, labels, spec in pod_specs(documents):
        component = labels["app.kubernetes.io/component"]
        user = {"test": "tap"}.get(component, component)
        for volume in spec["volumes"]:
            if volume["name"] == "credentials":
                keys = [item["key"] for item in volume["secret"]["items"]]
                must(keys == [f"{user}.nk"], f"{name_of(document)} has {keys}")
                variables = {variable["name"]: variable.get("value") for variable in spec["containers"][0]["env"]}
                path = variables["RHUMB__BROKER__CREDENTIALS"]
                must(path == f"/etc/rhumb-credentials/{user}.nk", f"{name_of(document)} reads {path}")


def state_lies_on_claims(documents):
    for document in of_kind(documents, "StatefulSet"):
        spec, name = document["spec"], name_of(document)
        must(spec["podManagementPolicy"] == "Parallel", f"{name} starts one pod after the other")
        services = {service["metadata"]["name"]: service["spec"] for service in of_kind(documents, "Service")}
        must(services[spec["serviceName"]]["clusterIP"] == "None", f"{name}: its Service is headless")
        claim = spec["volumeClaimTemplates"][0]
        must(claim["metadata"]["labels"] == spec["selector"]["matchLabels"], f"{name}: labels that may change on its claim")
    found = {document["metadata"]["name"].rsplit("-", 1)[1] for document in of_kind(documents, "StatefulSet")}
    must({"dedup", "scheduler"} <= found <= {*STATEFUL, "nats"}, f"StatefulSets are {found}")


def grace_is_longer_than_a_drain(documents):
    for document, labels, spec in pod_specs(documents):
        component = labels["app.kubernetes.io/component"]
        if document["kind"] in ("Deployment", "StatefulSet"):
            least = 600 if component in ("dedup", "scheduler") else 60
            must(spec["terminationGracePeriodSeconds"] >= least, f"{name_of(document)}: too short a grace")


def every_component_has_a_budget(documents):
    budgets = {document["metadata"]["name"] for document in of_kind(documents, "PodDisruptionBudget")}
    running = {document["metadata"]["name"] for document in of_kind(documents, "Deployment", "StatefulSet")}
    must(budgets == running, f"budgets {budgets ^ running}")
    for document in of_kind(documents, "PodDisruptionBudget"):
        must(document["spec"]["maxUnavailable"] == 1, f"{name_of(document)}: one at a time")


def an_autoscaler_owns_the_number(documents):
    """Who is scaled by something has no number in the chart, and its target is there."""
    deployments = {document["metadata"]["name"]: document for document in of_kind(documents, "Deployment")}
    for document in of_kind(documents, "ScaledObject", "HorizontalPodAutoscaler"):
        target = document["spec"]["scaleTargetRef"]["name"]
        must("replicas" not in deployments[target]["spec"], f"{target} has a number beside {name_of(document)}")


def hooks_are_tests_alone(documents):
    for document in documents:
        hook = document["metadata"].get("annotations", {}).get("helm.sh/hook", "test")
        must(hook == "test", f"{name_of(document)} is a hook: {hook}")


def names_are_unique(documents):
    names = [name_of(document) for document in documents]
    must(len(set(names)) == len(names), f"twice: {sorted(name for name in names if names.count(name) > 1)}")
    for document in documents:
        must(document["metadata"]["namespace"] == "web", f"{name_of(document)} is in another namespace")


def no_secret_is_in_the_chart(documents):
    must(not of_kind(documents, "Secret"), "secrets come by reference")
    for document in of_kind(documents, "ConfigMap"):
        for key, text in document["data"].items():
            if key == "rhumb.json":
                continue  # the dashboard, which is the same everywhere
            must("@" not in text or "user_agent" in text, f"{name_of(document)}: {key} may hold a password")


RULES = [
    pods_are_confined,
    only_the_conductor_may_ask_the_cluster,
    resources_are_named,
    probes_ask_the_paths_that_programs_serve,
    selectors_find_pods,
    volumes_are_there,
    a_pod_has_its_own_credentials_alone,
    state_lies_on_claims,
    grace_is_longer_than_a_drain,
    every_component_has_a_budget,
    an_autoscaler_owns_the_number,
    hooks_are_tests_alone,
    names_are_unique,
    no_secret_is_in_the_chart,
]
