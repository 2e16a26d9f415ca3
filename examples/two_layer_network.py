"""A two-layer network that tells three kinds of iris apart, trained natively and through both compatibility layers.

With matplotlib installed, the losses are drawn into ``two_layer_network.png`` in the folder for temporary files.
"""

import tempfile
from pathlib import Path

import numpy as np

import symgrad as sg
import symgrad.compat.paddle as paddle
import symgrad.compat.torch as torch

DATA = Path(__file__).parent / "data" / "iris.csv"
STEPS, RATE, HIDDEN = 300, 0.5, 8


def load():
    """Return standardised features and the number of the kind of each flower."""
    rows = [line.split(",") for line in DATA.read_text().splitlines()[1:]]
    x = np.array([[float(v) for v in row[:-1]] for row in rows])
    kinds = sorted({row[-1] for row in rows})
    return (x - x.mean(axis=0)) / x.std(axis=0), np.array([kinds.index(row[-1]) for row in rows])


def first_weights(features, kinds):
    rng = np.random.default_rng(0)
    sizes = ((HIDDEN, features), (kinds, HIDDEN))
    return [(rng.normal(0, 0.5, size), np.zeros(size[0])) for size in sizes]


class Net(sg.nn.Module):
    def __init__(self, features, kinds):
        super().__init__()
        self.hidden, self.out = sg.nn.Linear(features, HIDDEN), sg.nn.Linear(HIDDEN, kinds)

    def forward(self, x):
        return self.out(np.tanh(self.hidden(x)))


def natively(x, y, weights):
    net = Net(x.shape[1], y.max() + 1)
    (w1, b1), (w2, b2) = weights
    net.load_state_dict({"hidden.weight": w1, "hidden.bias": b1, "out.weight": w2, "out.bias": b2})
    optimizer, criterion = sg.optim.SGD(net.parameters(), lr=RATE), sg.nn.CrossEntropyLoss()
    inputs, labels, losses = sg.tensor(x), sg.tensor(y), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = criterion(net(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net(inputs).numpy()


def as_for_pytorch(x, y, weights):
    (w1, b1), (w2, b2) = [[torch.tensor(a, requires_grad=True) for a in layer] for layer in weights]
    optimizer = torch.optim.SGD([{"params": [w1, b1]}, {"params": [w2, b2]}], lr=RATE)
    inputs, labels, losses = torch.tensor(x), torch.tensor(y), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        scores = torch.matmul(torch.tanh(torch.matmul(inputs, w1.t()) + b1), w2.t()) + b2
        loss = torch.nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, scores.detach().numpy()


def as_for_paddle(x, y, weights):
    net = paddle.nn.Sequential(paddle.nn.Linear(x.shape[1], HIDDEN), paddle.nn.Tanh(), paddle.nn.Linear(HIDDEN, 3))
    for layer, (w, b) in zip((net[0], net[2]), weights, strict=True):
        layer.to("float64")
        layer.weight.set_value(w.T)
        layer.bias.set_value(b)
    optimizer = paddle.optimizer.SGD(learning_rate=RATE, parameters=net.parameters())
    inputs, labels, losses = paddle.to_tensor(x), paddle.to_tensor(y), []
    for _ in range(STEPS):
        scores = net(inputs)
        loss = paddle.nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, scores.numpy()


def by_hand(x, y, weights):
    """The same descent with the gradient written out."""
    (w1, b1), (w2, b2) = weights
    right, losses = np.eye(y.max() + 1)[y], []
    for _ in range(STEPS):
        h = np.tanh(x @ w1.T + b1)
        scores = h @ w2.T + b2
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        losses.append(-np.mean(np.log(shares[np.arange(len(y)), y])))
        d2 = (shares - right) / len(y)
        d1 = (d2 @ w2) * (1 - h * h)
        w2, b2 = w2 - RATE * d2.T @ h, b2 - RATE * d2.sum(axis=0)
        w1, b1 = w1 - RATE * d1.T @ x, b1 - RATE * d1.sum(axis=0)
    return losses


def draw(losses):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "not drawn: matplotlib is not installed"
    axes = (figure := Figure()).subplots()
    axes.semilogy(losses)
    axes.set(xlabel="step", ylabel="cross entropy")
    path = Path(tempfile.gettempdir()) / "two_layer_network.png"
    figure.savefig(path)
    return f"drawn in {path}"


def main():
    x, y = load()
    weights = first_weights(x.shape[1], y.max() + 1)
    expected = by_hand(x, y, weights)
    for train in (natively, as_for_pytorch, as_for_paddle):
        losses, scores = train(x, y, weights)
        np.testing.assert_allclose(losses, expected, rtol=1e-8)
        right = np.mean(scores.argmax(axis=1) == y)
        print(f"{train.__name__:15} loss {losses[0]:.4f} -> {losses[-1]:.4f}, {right:.1%} right")
        assert right > 0.97
    print(draw(expected))


if __name__ == "__main__":
    main()
