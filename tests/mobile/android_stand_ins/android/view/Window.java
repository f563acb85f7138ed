package android.view;

public class Window {
    public final View getDecorView() {
        return new View(0, 0, 1080, 2400);
    }

    public WindowInsetsController getInsetsController() {
        return new WindowInsetsController();
    }
}
