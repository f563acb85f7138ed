package android.view;

public class WindowInsetsController {
    public static int appearance;

    public void setSystemBarsAppearance(int appearance, int mask) {
        WindowInsetsController.appearance = appearance & mask;
    }
}
