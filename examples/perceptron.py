"""A perceptron, one neuron with a sigmoid, that tells two kinds of iris apart: natively and in both dialects.

With matplotlib installed, the losses are drawn into ``perceptron.png`` in the folder for temporary files.
"""

import tempfile
from pathlib import Path

import numpy as np

import symgrad as sg
import symgrad.compat.paddle as paddle
import symgrad.compat.torch as torch

DATA = Path(__file__).parent / "data" / "iris.csv"
STEPS, RATE, DECAY = 1000, 2.0, 0.01


def load():
    """Return standardised petals with a column of ones, and whether a flower is of the last kind and not the second."""
    rows = [line.split(",") for line in DATA.read_text().splitlines()[1:]]
    kinds = sorted({row[-1] for row in rows})
    rows = [row for row in rows if row[-1] != kinds[0]]
    petals = np.array([[float(v) for v in row[2:4]] for row in rows])
    scaled = (petals - petals.mean(axis=0)) / petals.std(axis=0)
    return np.column_stack([scaled, np.ones(len(rows))]), np.array([float(row[-1] == kinds[2]) for row in rows])


def natively(x, y):
    w, losses = sg.tensor(np.zeros(x.shape[1]), requires_grad=True), []
    for _ in range(STEPS):
        p = 1.0 / (1.0 + np.exp(-(x @ w)))
        loss = -np.mean(y * np.log(p) + (1.0 - y) * np.log(1.0 - p)) + 0.5 * DECAY * (w * w).sum()
        loss.backward()
        with sg.autograd.no_grad():
            w -= RATE * w.grad
        w.zero_grad()
        losses.append(loss.item())
    return losses, w.numpy()


def as_for_pytorch(x, y):
    w = torch.zeros(x.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=RATE)
    inputs, labels, losses = torch.tensor(x), torch.tensor(y), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        share = torch.sigmoid(inputs @ w)
        loss = torch.nn.functional.binary_cross_entropy(share, labels) + 0.5 * DECAY * (w * w).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, w.detach().numpy()


def as_for_paddle(x, y):
    w = paddle.to_tensor(np.zeros(x.shape[1]), stop_gradient=False)
    optimizer = paddle.optimizer.SGD(learning_rate=RATE, parameters=[w])
    inputs, labels, losses = paddle.to_tensor(x), paddle.to_tensor(y), []
    for _ in range(STEPS):
        share = paddle.nn.functional.sigmoid(paddle.matmul(inputs, w))
        loss = paddle.nn.functional.binary_cross_entropy(share, labels) + 0.5 * DECAY * paddle.sum(w * w)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, w.numpy()


def by_newton(x, y):
    """The weights where the gradient is zero, by Newton's method with derivatives by hand."""
    w = np.zeros(x.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ w))
        slope = x.T @ (p - y) / len(y) + DECAY * w
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x / len(y) + DECAY * np.eye(len(w)), slope)
    return w


def draw(losses):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "not drawn: matplotlib is not installed"
    axes = (figure := Figure()).subplots()
    axes.plot(losses)
    axes.set(xlabel="step", ylabel="cross entropy")
    path = Path(tempfile.gettempdir()) / "perceptron.png"
    figure.savefig(path)
    return f"drawn in {path}"


def main():
    x, y = load()
    best = by_newton(x, y)
    for train in (natively, as_for_pytorch, as_for_paddle):
        losses, w = train(x, y)
        np.testing.assert_allclose(w, best, atol=1e-6)
        right = np.mean((x @ w > 0) == (y > 0.5))
        print(f"{train.__name__:15} loss {losses[0]:.4f} -> {losses[-1]:.4f}, {right:.1%} right, weights {w.round(4)}")
        assert right > 0.9
    print(draw(losses))


if __name__ == "__main__":
    main()
